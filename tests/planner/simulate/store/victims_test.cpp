// Who leaves, on a string of references known from textbooks, and the heap that says so.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/simulate/store/victim_heap.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;

// Persistent tensors 0 to 7 of one byte, all far away at first; one operation per reference.
SimulationReport referenced(const std::vector<std::uint32_t>& string, std::uint64_t frames, Victims victims) {
  std::vector<wire::TraceOp> ops;
  ops.reserve(string.size());
  for (const std::uint32_t t : string) ops.push_back(op(1, {t}, {}));
  const wire::Trace trace = step(std::vector<wire::TraceTensor>(8, tensor(1, true)), ops);
  SimulationOptions options{victims, StallRule::strict, 1, true, 1};
  const auto r = simulate(trace, two_tiers(frames), {}, options);
  INFO(r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(trace, two_tiers(frames), *r), Catch::Equals(""));
  return *r;
}

std::vector<std::uint32_t> moved(const SimulationReport& r, bool in) {
  std::vector<std::uint32_t> tensors;
  for (const Transfer& t : r.transfers) {
    if (t.in == in) tensors.push_back(t.tensor);
  }
  return tensors;
}

// Nothing is written, so everything leaves to the copy that it came from.
std::vector<std::uint32_t> left(const SimulationReport& r) {
  CHECK(moved(r, false).empty());
  std::vector<std::uint32_t> tensors;
  for (const CopyUse& c : r.copies) tensors.push_back(c.tensor);
  return tensors;
}

const std::vector<std::uint32_t> silberschatz = {7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1};
using Tensors = std::vector<std::uint32_t>;

}  // namespace

// Silberschatz, Galvin, Gagne, Operating System Concepts, chapter on virtual memory: three frames, 15 faults
// for FIFO, 12 for LRU, 9 for the optimal rule.
TEST_CASE("First in, first out on the textbook's string") {
  const auto r = referenced(silberschatz, 3, Victims::fifo);
  CHECK(moved(r, true).size() == 15);
  CHECK(left(r) == Tensors{7, 0, 1, 2, 3, 0, 4, 2, 3, 0, 1, 2});
}

TEST_CASE("Least recently used on the textbook's string") {
  const auto r = referenced(silberschatz, 3, Victims::lru);
  CHECK(moved(r, true).size() == 12);
  CHECK(left(r) == Tensors{7, 1, 2, 3, 0, 4, 0, 3, 2});
}

TEST_CASE("Belady's rule on the textbook's string") {
  const auto r = referenced(silberschatz, 3, Victims::belady);
  CHECK(moved(r, true).size() == 9);
  CHECK(left(r) == Tensors{7, 1, 0, 4, 3, 2});
}

// Pages of one size, read only: here no rule loads less than Belady's (Mattson et al., IBM Systems Journal
// 1970).
TEST_CASE("Belady's rule never loads more than the other two where all are of one size") {
  std::uint32_t fewer = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Tensors string(20 + random() % 60);
    for (std::uint32_t& t : string) t = static_cast<std::uint32_t>(random() % 8);
    const std::uint64_t frames = 1 + random() % 7;
    const std::size_t least = moved(referenced(string, frames, Victims::belady), true).size();
    const std::size_t lru = moved(referenced(string, frames, Victims::lru), true).size();
    const std::size_t fifo = moved(referenced(string, frames, Victims::fifo), true).size();
    INFO("seed " << seed);
    REQUIRE(least <= lru);
    REQUIRE(least <= fifo);
    fewer += least < lru ? 1 : 0;
  }
  CHECK(fewer > 100);
}

TEST_CASE("A tensor that was just prefetched is no victim of the least recently used") {
  // Tensor 0 lies away from before; its prefetch arrives at 3, when 1 and 2 were used longer ago.
  std::vector<wire::TraceOp> ops = {op(1, {1}, {}), op(1, {2}, {}), op(3, {2}, {}), op(1, {3}, {}),
                                    op(1, {0}, {})};
  const wire::Trace trace = step({tensor(1, true), tensor(1, true), tensor(1, true), tensor(1, true)}, ops);
  SimulationOptions options{Victims::lru, StallRule::strict, 1, true, 1};
  const auto r = simulate(trace, two_tiers(3), {"", "", {{2, 0, wire::Action::in, 1, {}}}}, options);
  REQUIRE(r);
  CHECK(left(*r) == Tensors{1});
  CHECK(r->ops[4].stalls.total_us() == 0);
}

TEST_CASE("A fetch on demand overtakes prefetches that wait") {
  // 100 bytes of tensor 1 are on their way, 100 of tensor 2 wait; tensor 3 is needed now.
  const wire::Trace t =
      step({tensor(100, true), tensor(100, true), tensor(100, true), tensor(10, true)},
           {op(10, {}, {}), op(10, {3}, {}), op(10, {0}, {}), op(10, {1}, {}), op(10, {2}, {})});
  SimulationOptions options{Victims::lru, StallRule::strict, 1, true, 1};
  const auto r =
      simulate(t, two_tiers(400),
               {"", "", {{0, 1, wire::Action::in, 1, {}}, {0, 2, wire::Action::in, 1, {}}}}, options);
  REQUIRE(r);
  CHECK(r->ops[1].start_us == 110);
  CHECK(moved(*r, true) == Tensors{1, 3, 2, 0});
  options.victims = Victims::none;  // one FIFO
  const auto s =
      simulate(t, two_tiers(400),
               {"", "", {{0, 1, wire::Action::in, 1, {}}, {0, 2, wire::Action::in, 1, {}}}}, options);
  REQUIRE(s);
  CHECK(s->ops[1].start_us == 210);
}

TEST_CASE("Victims go to the next tier when the first is full, and there must be one") {
  Machine m = two_tiers(2);
  m.tiers[1].capacity_bytes = 6;
  m.tiers.push_back({"ssd", 2});
  m.links.push_back({"ssd", 1e6, 1e6, 0, 0});
  m.routes.push_back({2, {0, 1}});
  const wire::Trace t =
      step(std::vector<wire::TraceTensor>(9, tensor(1, true)), {op(1, {8}, {}), op(1, {0}, {})});
  const auto r = simulate(t, m, {}, {Victims::lru, StallRule::strict, 1, true, 0});
  INFO(r.error);
  REQUIRE(r);
  CHECK(r->start.at(8).tier == 2);
  CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
  Machine full = m;
  full.tiers[1].capacity_bytes = 7;
  full.tiers[2].capacity_bytes = 0;
  const auto none = simulate(t, full, {}, {Victims::lru, StallRule::strict, 1, true, 0});
  CHECK(none.error.find("no other tier has room") != std::string::npos);
}

TEST_CASE("The heap gives the smallest key, of equals the smaller tensor, whatever was changed before") {
  Random random(7);
  VictimHeap heap(50);
  std::vector<std::int64_t> keys(50, 0);
  std::vector<bool> in(50, false);
  for (int i = 0; i < 20'000; ++i) {
    const auto t = static_cast<std::uint32_t>(random() % 50);
    in[t] = random() % 3 != 0;
    keys[t] = static_cast<std::int64_t>(random() % 20) - 10;
    if (in[t]) {
      heap.put(t, keys[t]);
    } else {
      heap.remove(t);
    }
    std::int64_t best = -1;
    for (std::uint32_t o = 0; o < 50; ++o) {
      if (in[o] && (best < 0 || keys[o] < keys[static_cast<std::size_t>(best)])) best = o;
    }
    REQUIRE(heap.empty() == (best < 0));
    if (best >= 0) REQUIRE(heap.top() == static_cast<std::uint32_t>(best));
  }
}

}  // namespace terrace::planner
