// What an operation takes on two memories, by hand; machines that are none.
#include <catch2/catch.hpp>

#include "tests/planner/memories/two_memories.h"

namespace terrace::planner::memories {
namespace {

using namespace test;

std::string refusal(const Machine& machine, const wire::Trace& trace) {
  return step_on(trace, machine).error;
}

}  // namespace

TEST_CASE("A use takes what its memory's bandwidth says and hides behind its operation's time") {
  // Fast accesses: 8 read, 2 written, 10 µs of the first operation's 30.
  const Step s = on_two(test::step({tensor(8), tensor(2)}, {op(30, {0}, {1}), op(5, {0, 1}, {1})}), 100);
  REQUIRE(s.uses.size() == 4);
  CHECK(s.uses[0].extra_us == Approx(8 * 4 - 8));
  CHECK(s.uses[1].extra_us == Approx(2 * 10 - 2));
  CHECK(s.ops[0].hidden_us == Approx(20));
  CHECK(s.ops[0].takes_us(0) == 30);
  CHECK(s.ops[0].takes_us(18) == 30);
  CHECK(s.ops[0].takes_us(24 + 18) == Approx(32 + 20));  // accesses alone
  // Faster than the memory: nothing hides. An update in place reads and writes.
  CHECK(s.ops[1].hidden_us == 0);
  CHECK(s.uses[3].extra_us == Approx(2 * (4 + 10) - 2 * 2));
  CHECK(s.compute_us == 35);
}

TEST_CASE("Latency is of each tensor and each direction") {
  Machine m = two_memories(100);
  m.tiers[1].access.read_latency_us = 3;
  m.tiers[1].access.write_latency_us = 5;
  const auto s = step_on(test::step({tensor(1), tensor(1)}, {op(0, {0}, {1})}), m);
  REQUIRE(s);
  CHECK(s->uses[0].extra_us == Approx(4 - 1 + 3));
  CHECK(s->uses[1].extra_us == Approx(10 - 1 + 5));
}

TEST_CASE("A workspace is a tensor of its operation") {
  const Step s = on_two(test::step({tensor(1)}, {op(0, {}, {0}, 6), op(0, {0}, {}, 0)}), 100);
  REQUIRE(s.tensors.size() == 2);
  CHECK(s.tensors[1].bytes == 6);
  CHECK((s.tensors[1].first == 0 && s.tensors[1].last == 0));
  CHECK(s.peak_bytes() == 7);
  CHECK(s.live_bytes() == std::vector<std::uint64_t>{7, 1});
}

TEST_CASE("Moves are as fast as the slowest of link and memories") {
  Machine m = two_memories(100);
  Result<Step> s = step_on(test::step({tensor(1)}, {op(0, {}, {0})}), m);
  REQUIRE(s);
  CHECK(s->in_rate == Approx(0.25));
  CHECK(s->out_rate == Approx(0.1));
  m.links[0].in_bytes_per_second = 0.05e6;
  s = step_on(test::step({tensor(1)}, {op(0, {}, {0})}), m);
  REQUIRE(s);
  CHECK(s->in_rate == Approx(0.05));
}

TEST_CASE("A fast memory without limit is one that loads can be counted in") {
  const Step s = on_two(test::step({tensor(10)}, {op(30, {}, {0}), op(30, {0}, {})}), unlimited_bytes);
  CHECK(s.fast_bytes == std::uint64_t{1} << 62);
}

TEST_CASE("A machine that is not two memories is refused with what to do") {
  const wire::Trace trace = test::step({tensor(10)}, {op(0, {}, {0})});
  Machine m = two_memories(5);
  m.tiers[1].access = {};
  CHECK(refusal(m, trace) ==
        "tier slow of machine two memories cannot be used in place: give it read_bytes_per_second and "
        "write_bytes_per_second");
  m = two_memories(5);
  m.tiers[1].capacity_bytes = 9;
  CHECK(refusal(m, trace) ==
        "tier slow of machine two memories holds 9 bytes, and the step needs 10 at once: make it larger");
  m = two_memories(5);
  m.routes.clear();
  CHECK(refusal(m, trace) ==
        "tier slow of machine two memories has no route: add one, for what moves between the memories");
  m.tiers.pop_back();
  CHECK(refusal(m, trace) == "machine two memories has one tier: two memories need a second one");
  CHECK(refusal(two_memories(5), test::step({}, {})) ==
        "the trace has no operations: nothing is to be placed");
}

}  // namespace terrace::planner::memories
