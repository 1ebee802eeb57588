// What the vectors do not reach: the arena's quirks, reallocation graphs in use, larger flows, stopping,
// refusals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "daemon/planner/reuse/tflite/chains.h"
#include "tests/planner/policies.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::tflite::test {
namespace {

using planner::test::policy;
using planner::test::random_instance;
using Offsets = std::vector<std::uint64_t>;

// No two buffers of one object alive together, and each fits its object.
std::string wrong_with(const Objects& objects, Records records) {
  for (std::size_t a = 0; a < records.size(); ++a) {
    if (records[a].size > objects.object_bytes[objects.object_of[a]])
      return "too large: " + std::to_string(a);
    for (std::size_t b = a + 1; b < records.size(); ++b)
      if (objects.object_of[a] == objects.object_of[b] && conflict(records[a], records[b]))
        return "both alive: " + std::to_string(a) + " and " + std::to_string(b);
  }
  return {};
}

// What MINCOSTFLOW minimises: the first of each object in full, then every growth.
std::int64_t flow_cost(const Objects& objects, Records records) {
  std::vector<const Record*> last(objects.object_bytes.size(), nullptr);
  std::int64_t cost = 0;
  for (std::size_t r = 0; r < records.size(); ++r) {
    const Record*& before = last[objects.object_of[r]];
    cost += before == nullptr ? static_cast<std::int64_t>(records[r].size) : growth(*before, records[r]);
    before = &records[r];
  }
  return cost;
}

// GREEDY_BY_SIZE for objects as TFLite writes it: every tensor keeps its distance to every object all the
// time.
class PlainBySize {
 public:
  explicit PlainBySize(Records records)
      : records_(records), maxima_(positional_maxima(records)), states_(records.size()) {
    objects.object_of.assign(records.size(), unassigned);
    for (std::size_t r = 0; r < records.size(); ++r)
      while (states_[r].position < maxima_.size() && maxima_[states_[r].position] >= records[r].size)
        ++states_[r].position;
    for (std::size_t r = 0; r < records.size(); ++r) assign(first_in_line());
  }

  Objects objects;

 private:
  static constexpr std::uint32_t never = 0xffffffffU;
  struct State {
    std::size_t position = 0;
    std::uint32_t best = never;
    std::uint32_t object = 0;
    std::vector<std::uint32_t> distances;
  };

  bool before(std::size_t a, std::size_t b) const {
    if (states_[a].position != states_[b].position) return states_[a].position < states_[b].position;
    if (states_[a].best != states_[b].best) return states_[a].best < states_[b].best;
    return records_[a].size > records_[b].size;
  }

  std::size_t first_in_line() const {
    std::size_t first = records_.size();
    for (std::size_t r = 0; r < records_.size(); ++r)
      if (objects.object_of[r] == unassigned && (first == records_.size() || before(r, first))) first = r;
    return first;
  }

  void assign(std::size_t r) {
    const bool is_new = states_[r].best == never;
    const auto object = is_new ? static_cast<std::uint32_t>(objects.object_bytes.size()) : states_[r].object;
    if (is_new) objects.object_bytes.push_back(0);
    objects.object_of[r] = object;
    objects.object_bytes[object] = std::max(objects.object_bytes[object], records_[r].size);
    for (std::size_t other = 0; other < records_.size(); ++other)
      if (objects.object_of[other] == unassigned)
        update(&states_[other], records_[other], records_[r], object);
  }

  static void update(State* state, const Record& own, const Record& assigned, std::uint32_t object) {
    std::uint32_t d = never;
    if (own.last_task < assigned.first_task) d = assigned.first_task - own.last_task;
    if (assigned.last_task < own.first_task) d = own.first_task - assigned.last_task;
    if (state->distances.size() == object) state->distances.push_back(d);
    std::uint32_t& to_object = state->distances[object];
    if (to_object == never) return;
    if (d != never) {
      to_object = std::min(to_object, d);
      if (d < state->best) state->object = object;
      state->best = std::min(state->best, d);
      return;
    }
    to_object = never;
    if (state->best == never || state->object != object) return;
    const auto least = std::min_element(state->distances.begin(), state->distances.end());
    state->best = *least;
    state->object = static_cast<std::uint32_t>(least - state->distances.begin());
  }

  Records records_;
  std::vector<std::uint64_t> maxima_;
  std::vector<State> states_;
};

std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

}  // namespace

TEST_CASE("Objects hold what they are given, one at a time") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const InstanceRecords all =
        records_of(random_instance(seed, 1 + seed % 60, 40, seed % 2 == 0 ? 4 : 1000));
    const Records records = all.records;
    INFO("seed " << seed);
    const std::uint64_t bound = sum(positional_maxima(records));
    for (const Objects& objects : {naive(records), equality(records), in_order(records), by_breadth(records),
                                   *by_size_objects(records, {}), *min_cost_flow(records, {})}) {
      CHECK_THAT(wrong_with(objects, records), Catch::Equals(""));
      CHECK(sum(objects.object_bytes) >= bound);
    }
  }
}

TEST_CASE("Objects by size are those of a plain implementation, ties included") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    const InstanceRecords all =
        records_of(random_instance(seed, 1 + seed % 80, 60, seed % 3 == 0 ? 1000 : 4));
    const Objects plain = PlainBySize(all.records).objects;
    const Result<Objects> objects = by_size_objects(all.records, {});
    INFO("seed " << seed);
    REQUIRE(objects);
    CHECK(objects->object_of == plain.object_of);
    CHECK(objects->object_bytes == plain.object_bytes);
  }
}

TEST_CASE("In order, a tie goes to the larger object, then to the smaller id") {
  const std::vector<Record> as_close{{8, 0, 0}, {24, 0, 0}, {16, 1, 1}};
  CHECK(in_order(as_close).object_of == std::vector<std::uint32_t>{0, 1, 1});
  const std::vector<Record> equal{{16, 0, 0}, {16, 0, 0}, {16, 1, 1}};
  CHECK(in_order(equal).object_of == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(equality(equal).object_of == std::vector<std::uint32_t>{0, 1, 1});  // came free last
}

TEST_CASE("By breadth, a tie goes to the smaller id") {
  const std::vector<Record> too_small{{8, 0, 0}, {8, 0, 0}, {16, 1, 1}};
  CHECK(by_breadth(too_small).object_of == std::vector<std::uint32_t>{0, 1, 0});
  const std::vector<Record> large_enough{{8, 0, 0}, {8, 0, 0}, {4, 1, 1}};
  CHECK(by_breadth(large_enough).object_of == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("By size, of two equal gaps the lower one is taken") {
  const std::vector<Record> records{{100, 0, 3}, {50, 0, 1}, {50, 0, 3}, {50, 0, 1}, {45, 0, 3}, {16, 2, 3}};
  CHECK(by_size(records, 1, {})->offsets == Offsets{0, 100, 150, 200, 250, 100});
}

TEST_CASE("Both solvers of the flow find the same cost") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const InstanceRecords all =
        records_of(random_instance(seed, 1 + seed * 2, 80, seed % 3 == 0 ? 5 : 5'000'000'000));
    const Finished finished = finished_before(all.records);
    const Objects exact = shortest_path_flow(all.records, finished);
    const std::optional<Objects> simplex = network_simplex_flow(all.records, finished);
    INFO("seed " << seed);
    REQUIRE(simplex.has_value());
    CHECK_THAT(wrong_with(*simplex, all.records), Catch::Equals(""));
    CHECK(flow_cost(*simplex, all.records) == flow_cost(exact, all.records));
  }
}

TEST_CASE("Positional maxima are those of the profiles") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const InstanceRecords all = records_of(random_instance(seed, 1 + seed, 30, seed % 2 == 0 ? 3 : 100));
    std::vector<std::uint64_t> maxima;
    for (const std::vector<std::uint32_t>& profile : task_profiles(all.records)) {
      maxima.resize(std::max(maxima.size(), profile.size()), 0);
      for (std::size_t j = 0; j < profile.size(); ++j)
        maxima[j] = std::max(maxima[j], all.records[profile[j]].size);
    }
    INFO("seed " << seed);
    CHECK(positional_maxima(all.records) == maxima);
  }
}

TEST_CASE("A reallocation graph keeps apart what could run at once") {
  // 0 feeds 1 and 2, which feed 3; 4 follows 3. Sizes are equal, so only the graph decides.
  const std::vector<Record> records{{8, 0, 2}, {8, 1, 3}, {8, 2, 3}, {8, 3, 4}, {8, 4, 5}};
  const UsageGraph graph = reallocation_graph({{1, 2}, {3}, {3}, {4}, {}});
  CHECK(in_order(records, &graph).object_of == std::vector<std::uint32_t>{0, 1, 2, 0, 1});
  const UsageGraph nothing_allowed(records.size());
  CHECK(in_order(records, &nothing_allowed).object_of == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
}

TEST_CASE("The arena places what lives throughout first, and by index") {
  const std::vector<Record> records{{4, 0, 3}, {64, 0, 1}, {8, 0, 3}, {64, 2, 3}};
  const Result<Placement> placement = arena(records, 4, 1, {});
  REQUIRE(placement);
  CHECK(placement->offsets == Offsets{0, 12, 4, 12});
  CHECK(placement->total_bytes == 76);
}

TEST_CASE("The arena aligns candidates, not the ends of neighbours") {
  const std::vector<Record> records{{10, 0, 1}, {9, 0, 1}, {8, 0, 1}};
  CHECK(arena(records, 3, 16, {})->offsets == Offsets{0, 16, 32});
  CHECK(arena(records, 3, 16, {})->total_bytes == 40);
}

// Between 100 and 208 the last one would have 96 bytes from 112 on, between 298 and 400 as many from 304 on.
// The first gap is remembered as 108 bytes wide, without its padding, and so the second one counts as
// smaller.
TEST_CASE("The arena remembers a gap without its padding") {
  const std::vector<Record> records{{100, 0, 3}, {96, 0, 1}, {90, 0, 3}, {88, 0, 1}, {80, 0, 3}, {16, 2, 3}};
  const Result<Placement> placement = arena(records, 5, 16, {});
  REQUIRE(placement);
  CHECK(placement->offsets == Offsets{0, 112, 208, 304, 400, 304});
}

TEST_CASE("Buffers may come in any order, and empty ones lie at 0") {
  Instance instance = random_instance(7, 40, 20, 100);
  instance.buffers[3].bytes = 0;
  for (const char* name : {"tflite_in_order", "tflite_equality", "tflite_min_cost_flow"}) {
    const Result<Placement> placement = policy(name).place(instance, {});
    REQUIRE(placement);
    CHECK_THAT(check_placement(instance, *placement), Catch::Equals(""));
    CHECK(placement->offsets[3] == 0);
    Instance sorted = instance;
    std::stable_sort(sorted.buffers.begin(), sorted.buffers.end(),
                     [](const Buffer& a, const Buffer& b) { return a.lower < b.lower; });
    CHECK(policy(name).place(sorted, {})->total_bytes == placement->total_bytes);
  }
}

TEST_CASE("A long strategy stops when told, and says so") {
  const Instance instance = random_instance(1, 500, 100, 1000);
  SearchControl control;
  control.stop = [] { return true; };
  for (const char* name :
       {"tflite_by_size", "tflite_by_size_objects", "tflite_min_cost_flow", "tflite_arena"}) {
    INFO(name);
    const Result<Placement> placement = policy(name).place(instance, control);
    CHECK_FALSE(placement);
    CHECK(placement.error.find("stopped") != std::string::npos);
  }
}

TEST_CASE("What cannot be placed is refused by every policy, with the reason") {
  const auto says = [](const Buffer& b, const char* what) {
    for (const ReusePolicy& p : reuse_policies()) {
      if (std::string(p.family) != "tflite" && std::string(p.family) != "tvm") continue;
      INFO(p.name);
      const Result<Placement> placement = p.place({"bad", {{1, 0, 1, 1, 0}, b}, nullptr}, {});
      CHECK_FALSE(placement);
      CHECK(placement.error.find(what) != std::string::npos);
    }
  };
  says({~std::uint64_t{0}, 0, 1, 1, 0}, "2^61");
  says({1, 3, 3, 1, 0}, "empty life");
  says({1, 0, 1, 3, 0}, "power of two");
  says({1, 0, 1, std::uint64_t{1} << 60U, 0}, "paddings");
}

TEST_CASE("A flow with too many arcs is refused before it is built") {
  Instance chain;
  for (std::uint32_t i = 0; i < 4000; ++i) chain.buffers.push_back({1, i, i + 1, 1, no_tensor});
  const Result<Placement> placement = policy("tflite_min_cost_flow").place(chain, {});
  CHECK_FALSE(placement);
  CHECK(placement.error.find("7998000 arcs") != std::string::npos);
}

}  // namespace terrace::planner::tflite::test
