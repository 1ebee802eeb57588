// G10's plan on traces small enough to follow.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/g10/channels.h"
#include "daemon/planner/g10/intervals.h"
#include "tests/planner/g10/small_trace.h"

namespace terrace::planner::g10 {
namespace {

using test::machine_of_pages;
using test::op_of_ticks;
using test::tensor_of_pages;
using Over = Direction::Over;

// A weight (0), two activations that bridge the middle (1, 2), and a large tensor there (3).
wire::Trace bridge() {
  wire::Trace trace;
  trace.tensors = {tensor_of_pages(100, true), tensor_of_pages(3000), tensor_of_pages(3000),
                   tensor_of_pages(5000)};
  trace.ops = {op_of_ticks(10, {0}, {1}),   op_of_ticks(10, {1}, {2}),   op_of_ticks(500, {2}, {2}),
               op_of_ticks(10, {2}, {2}),   op_of_ticks(3000, {2}, {3}), op_of_ticks(3000, {3}, {3}),
               op_of_ticks(3000, {3}, {3}), op_of_ticks(3000, {3}, {3}), op_of_ticks(10, {2, 3, 0}, {2}),
               op_of_ticks(10, {1, 2}, {1})};
  return trace;
}

TEST_CASE("A tensor is idle between its uses, a weight also across iterations") {
  const Workload workload = *make_workload(bridge(), {}, {});
  const auto intervals = idle_intervals(workload, begin_times(workload, {}));
  REQUIRE(intervals.size() == 4);
  CHECK(std::tie(intervals[0].start, intervals[0].end, intervals[0].looped) == std::make_tuple(1, 8, false));
  CHECK(std::tie(intervals[1].start, intervals[1].end, intervals[1].looped) == std::make_tuple(9, 0, true));
  CHECK(std::tie(intervals[2].start, intervals[2].end) == std::make_tuple(2, 9));
  CHECK(std::tie(intervals[3].start, intervals[3].end) == std::make_tuple(5, 8));
}

TEST_CASE("The plan evicts where it relieves the most, and fetches back before the next use") {
  const auto plan = plan_g10_pages(bridge(), machine_of_pages(9000, 100000));
  REQUIRE(plan);
  const auto& entries = plan->entries;
  const auto evicts = [](const PageScheduleEntry& entry) {
    return entry.action == PageAction::evict_to_ssd || entry.action == PageAction::evict_to_host;
  };
  const auto evicted = std::find_if(entries.begin(), entries.end(), evicts);
  REQUIRE(evicted != entries.end());
  CHECK(evicted->tensor == 1);
  CHECK(evicted->op == 2);
  CHECK(std::count_if(entries.begin(), entries.end(), evicts) == 1);
  const auto fetched = std::find_if(evicted, entries.end(), [](const PageScheduleEntry& entry) {
    return entry.action == PageAction::fetch && entry.tensor == 1;
  });
  REQUIRE(fetched != entries.end());
  CHECK(fetched->op < 9);
  CHECK(fetched->op > 2);
}

TEST_CASE("Where everything fits, nothing is planned") {
  const auto plan = plan_g10_pages(bridge(), machine_of_pages(20000, 0));
  REQUIRE(plan);
  CHECK(plan->entries.empty());
}

TEST_CASE("A plan's entries are in order and name what exists") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const wire::Trace trace = test::random_trace(seed);
    const auto machine = machine_of_pages(1500, 1000);
    const Workload workload = *make_workload(trace, machine, {});
    const auto plan = plan_g10_pages(trace, machine);
    REQUIRE(plan);
    CHECK(std::is_sorted(plan->entries.begin(), plan->entries.end(),
                         [](const auto& a, const auto& b) { return a.op < b.op; }));
    for (const PageScheduleEntry& entry : plan->entries) {
      CHECK(entry.op <= trace.ops.size());
      CHECK(entry.tensor < workload.tensors.size());
    }
  }
}

TEST_CASE("What goes over the SSD goes over the link") {
  Direction direction({10, 10, 10}, 2, 5);  // 20 and 50 bytes per operation
  CHECK(direction.end_of(Over::ssd, 20, 0) == 0);
  CHECK(direction.end_of(Over::ssd, 21, 0) == 1);
  direction.reserve(Over::ssd, 30, 0);
  CHECK(direction.ssd_crowded(0, 1));
  CHECK_FALSE(direction.ssd_crowded(0, 2));
  CHECK(direction.end_of(Over::link, 31, 0) == 1);
  CHECK(direction.start_of(Over::ssd, 31, 3) == 0);
  CHECK(direction.start_of(Over::ssd, 30, 3) == 1);
}

TEST_CASE("Traffic with the host leaves the SSD what is left of the link") {
  Direction direction({10, 10}, 2, 5);
  direction.reserve(Over::link, 40, 0);
  CHECK(direction.end_of(Over::ssd, 10, 0) == 0);
  CHECK(direction.end_of(Over::ssd, 11, 0) == 1);
  direction.reserve(Over::link, 11, 0);
  CHECK(direction.ssd_crowded(0, 1));
  CHECK(direction.end_of(Over::ssd, 60, 0) == 1);  // the last operation, however much is left
}

}  // namespace
}  // namespace terrace::planner::g10
