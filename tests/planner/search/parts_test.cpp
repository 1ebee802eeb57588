// The parts that the search is made of, where a mistake would only show as slowness.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <random>

#include "daemon/planner/reuse/search/bounds.h"
#include "daemon/planner/reuse/search/first_path.h"
#include "daemon/planner/reuse/search/section_check.h"
#include "daemon/planner/reuse/skyline/cut.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::search {
namespace {

// Time:      0 1 2 3 4 5 6
//   0 (4)    ━━━━━
//   1 (2)      ━━━━━━━
//   2 (3)          ━━━
//   3 (5)                ━
Instance chain() {
  return {"chain",
          {{4, 0, 2, 1, 0}, {2, 1, 4, 1, 1}, {3, 3, 4, 1, 2}, {5, 5, 6, 1, 3}, {0, 0, 9, 1, 4}},
          nullptr};
}

// The first path by its definition: of the lowest row of sections of one height, the first such.
std::vector<std::int64_t> plain_path(const Problem& problem, const std::vector<std::uint32_t>& order) {
  const auto sections = static_cast<std::size_t>(problem.sections);
  std::vector<std::int64_t> height(sections, 0), offsets(order.size());
  std::vector<std::uint32_t> left = order;
  while (!left.empty()) {
    const auto begin =
        static_cast<std::size_t>(std::min_element(height.begin(), height.end()) - height.begin());
    std::size_t end = begin;
    while (end < sections && height[end] == height[begin]) ++end;
    const auto fits = [&](std::uint32_t i) {
      const Item& item = problem.items[i];
      return static_cast<std::size_t>(item.first) >= begin && static_cast<std::size_t>(item.last) < end;
    };
    const auto found = std::find_if(left.begin(), left.end(), fits);
    if (found == left.end()) {
      const std::int64_t before = begin > 0 ? height[begin - 1] : std::numeric_limits<std::int64_t>::max();
      const std::int64_t after = end < sections ? height[end] : std::numeric_limits<std::int64_t>::max();
      std::fill(&height[begin], &height[end - 1] + 1, std::min(before, after));
      continue;
    }
    const Item& item = problem.items[*found];
    offsets[*found] = (height[begin] + item.alignment - 1) / item.alignment * item.alignment;
    for (std::int32_t s = item.first; s <= item.last; ++s)
      height[static_cast<std::size_t>(s)] = offsets[*found] + item.bytes;
    left.erase(found);
  }
  return offsets;
}

// All buffers that have bytes, as one part: nothing is rounded, and nothing settled beforehand.
Problem problem_of(const Instance& instance) {
  skyline::Part part;
  for (std::uint32_t n = 0; n < instance.buffers.size(); ++n) {
    const Buffer& b = instance.buffers[n];
    if (b.bytes > 0) part.blocks.push_back({b.bytes, b.lower, b.upper, b.alignment, n, b.lower, b.upper, 0});
  }
  return search::problem_of(part);
}

}  // namespace

TEST_CASE("Only maximal live sets are sections") {
  const Problem problem = problem_of(chain());
  CHECK(problem.sections == 3);  // {0, 1}, {1, 2} and {3}
  CHECK(problem.bound == 6);
  REQUIRE(problem.items.size() == 4);
  CHECK((problem.items[1].first == 0 && problem.items[1].last == 1));
  CHECK(problem.items[2].crowd == 5);
  CHECK((problem.items[3].first == 2 && problem.items[3].last == 2));
}

TEST_CASE("A problem has the buffers' sizes and their order, and counts from the part's first offset") {
  // The first buffer lives all the time and is settled; the others are rounded to 4.
  const Instance instance{
      "cut", {{3, 0, 9, 4, 0}, {6, 5, 9, 4, 1}, {5, 0, 6, 4, 2}, {7, 2, 4, 4, 3}}, nullptr};
  const skyline::Parts all = skyline::cut(instance);
  REQUIRE(all.parts.size() == 1);
  CHECK(skyline::first_offset(all.parts[0]) == 4);
  const Problem problem = search::problem_of(all.parts[0]);
  REQUIRE(problem.items.size() == 3);
  std::vector<std::uint32_t> buffers;
  std::vector<std::int64_t> bytes;
  for (const Item& item : problem.items) {
    buffers.push_back(all.parts[0].blocks[item.block].buffer);
    bytes.push_back(item.bytes);
  }
  CHECK(buffers == std::vector<std::uint32_t>{2, 3, 1});  // by begin
  CHECK(bytes == std::vector<std::int64_t>{5, 7, 6});
  CHECK(problem.bound == 12);
}

TEST_CASE("Bytes alive are compared with a limit without overflow") {
  CHECK(live_within(chain(), 6));
  CHECK_FALSE(live_within(chain(), 5));
  const Instance huge{"huge", {{~std::uint64_t{0}, 0, 1, 1, 0}, {~std::uint64_t{0}, 0, 1, 1, 1}}, nullptr};
  CHECK_FALSE(live_within(huge, max_instance_bytes));
}

TEST_CASE("The granule is the sizes' divisor only where alignments allow it") {
  Instance instance{"granule", {{12, 0, 1, 2, 0}, {18, 0, 1, 1, 1}}, nullptr};
  CHECK(granule(problem_of(instance)) == 6);
  instance.buffers[0].alignment = 4;
  CHECK(granule(problem_of(instance)) == 1);
}

TEST_CASE("Bounds rise, carry their reasons, and come back by undo") {
  const Instance instance{"three", {{4, 0, 1, 1, 0}, {2, 0, 1, 8, 1}, {9, 0, 1, 1, 2}}, nullptr};
  const Problem problem = problem_of(instance);
  const std::vector<std::uint32_t> order{0, 1, 2};
  Bounds bounds(problem, order, true);
  for (Rank r = 0; r < 3; ++r) bounds.add_to_hash(r);
  const StateHash before = bounds.hash();
  bounds.stack(1, 0, 0);
  CHECK(bounds[1].floor == 8);  // 4, aligned
  CHECK(bounds[1].low == 8);
  CHECK(BitRows::test(bounds.low_why(1), 0));
  CHECK_FALSE(bounds.hash() == before);
  bounds.stack(2, 1, 8);
  CHECK(bounds[2].low == 10);
  CHECK(BitRows::test(bounds.floor_why(2), 1));
  CHECK_FALSE(BitRows::test(bounds.floor_why(2), 0));  // 9 bytes never fit beneath offset 8
  bounds.undo(0);
  CHECK(bounds[1].low == 0);
  CHECK(bounds.hash() == before);
}

TEST_CASE("A gap in the middle of a section counts as lost") {
  const Instance instance{"gap", {{4, 0, 1, 1, 0}, {4, 0, 1, 1, 1}}, nullptr};
  const Problem problem = problem_of(instance);
  const std::vector<std::uint32_t> order{0, 1};
  Bounds bounds(problem, order, true);
  const BitRows::Word why = 2;
  bounds.raise(1, 7, &why);
  Activity activity(2);
  BitRows::Word reason = 0;
  const std::vector<Rank> left{0, 1};
  CHECK(SectionCheck(1, 11).fits(bounds, left, {0, 0}, activity, &reason));
  CHECK_FALSE(SectionCheck(1, 10).fits(bounds, left, {0, 0}, activity, &reason));
  CHECK(reason == 2);
  CHECK(activity[1] > 0);
  CHECK(activity[0] == 0);  // it lies below the gap
}

TEST_CASE("Failed states are found again after the table has grown") {
  FailedStates states;
  for (std::uint32_t i = 1; i <= 20000; ++i) states.insert(hash_of(i, 64));
  int found = 0;
  for (std::uint32_t i = 1; i <= 20000; ++i) found += states.contains(hash_of(i, 64)) ? 1 : 0;
  CHECK(found > 19000);  // a full run of probes overwrites
  CHECK_FALSE(states.contains(hash_of(20001, 64)));
  CHECK_FALSE(states.contains(hash_of(1, 65)));
}

TEST_CASE("What failed more, and more recently, comes first") {
  const Instance instance{"flat", {{1, 0, 1, 1, 0}, {1, 0, 1, 1, 1}, {1, 0, 1, 1, 2}}, nullptr};
  const Problem problem = problem_of(instance);
  Activity activity(3);
  CHECK(order_by(problem, "VW", activity, 0) == std::vector<std::uint32_t>{0, 1, 2});
  activity.raise(1);
  activity.next_failure();
  activity.raise(2);
  CHECK(order_by(problem, "VW", activity, 0) == std::vector<std::uint32_t>{2, 1, 0});
  for (int i = 0; i < 300000; ++i) activity.next_failure();
  CHECK(order_by(problem, "VW", activity, 0) == std::vector<std::uint32_t>{2, 1, 0});
}

TEST_CASE("The first path puts the first item that fits into the lowest gap") {
  const Problem problem = problem_of(chain());
  const std::vector<std::int64_t> offsets = first_path(problem, std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(offsets == std::vector<std::int64_t>{0, 4, 0, 0});
}

TEST_CASE("The first path is that of a plain loop over sections") {
  std::mt19937_64 random(5);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Instance instance = test::random_instance(seed, static_cast<std::uint32_t>(2 + seed % 90), 40, 30);
    for (Buffer& b : instance.buffers) b.alignment = std::uint64_t{1} << random() % 4;
    for (const skyline::Part& part : skyline::cut(instance).parts) {
      const Problem problem = search::problem_of(part);
      std::vector<std::uint32_t> order(problem.items.size());
      std::iota(order.begin(), order.end(), 0U);
      std::shuffle(order.begin(), order.end(), random);
      CHECK(first_path(problem, order) == plain_path(problem, order));
    }
  }
}

}  // namespace terrace::planner::search
