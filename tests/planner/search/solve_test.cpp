// solve() on MiniMalloc's suite, at the limits of its arguments, and when it is stopped.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "daemon/planner/reuse/search/search.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

using search::SearchLimits;
using search::SearchResult;
using search::Verdict;

Instance suite(const std::string& name) {
  return test::instance_from_csv(name, test::fixture("minimalloc/" + name + ".csv"));
}

SearchLimits nodes(std::uint64_t count) { return {count, {}, 0}; }

// Nodes are what time is made of (some microseconds each), and the same on every machine.
void check_solved(const Instance& instance, std::uint64_t capacity, std::uint64_t most_nodes) {
  INFO(instance.name << " at " << capacity);
  const SearchResult result = search::solve(instance, capacity, nodes(most_nodes));
  REQUIRE(result.verdict == Verdict::found);
  CHECK(check_placement(instance, result.placement).empty());
  CHECK(result.placement.total_bytes <= capacity);
  CHECK(result.nodes <= most_nodes);
}

Instance two(std::uint64_t a, std::uint64_t b) {
  return {"two", {{a, 0, 2, 1, 0}, {b, 1, 3, 1, 1}}, nullptr};
}

}  // namespace

TEST_CASE("MiniMalloc's example is solved at 12, its optimum") {
  // benchmarks/examples/input.12.csv, whose ids are words
  const Instance instance{
      "input.12",
      {{4, 0, 3, 1, 0}, {4, 3, 9, 1, 1}, {4, 0, 9, 1, 2}, {4, 9, 21, 1, 3}, {4, 0, 21, 1, 4}},
      nullptr};
  check_solved(instance, 12, 100);
  CHECK(search::solve(instance, 11).verdict == Verdict::infeasible);
}

TEST_CASE("MiniMalloc's challenging instances are solved at 1,048,576") {
  for (const char name : std::string("ABCDEFGHIJK"))
    check_solved(suite(std::string(1, name) + ".1048576"), 1048576, 200000);
}

TEST_CASE("C is solved at its bound, 1,039,360") {
  const Instance c = suite("C.1048576");
  check_solved(c, 1039360, 20000);
  CHECK(search::solve(c, 1039359).verdict == Verdict::infeasible);
}

TEST_CASE("ResNet-50 and G_1 are solved at their bounds") {
  for (const char* name : {"dsa/resnet50.csv", "dsa/G_1.csv"}) {
    const std::optional<std::string> text = test::reference_data(name);
    if (!text) continue;
    const Instance instance = test::instance_from_csv(name, *text);
    check_solved(instance, max_live_bytes(instance.buffers), 20000);
  }
}

TEST_CASE("The same question gets the same answer; another seed may get another") {
  const Instance b = suite("B.1048576");
  const SearchResult first = search::solve(b, 1048576, nodes(200000));
  const SearchResult second = search::solve(b, 1048576, nodes(200000));
  CHECK(first.nodes == second.nodes);
  CHECK(first.placement.offsets == second.placement.offsets);
  const SearchResult seeded = search::solve(b, 1048576, {2000000, {}, 7});
  REQUIRE(seeded.verdict == Verdict::found);
  CHECK(check_placement(b, seeded.placement).empty());
}

TEST_CASE("Stop is honoured, and so is the limit of nodes") {
  const Instance d = suite("D.1048576");  // undecided at its bound
  int asked = 0;
  const SearchResult stopped = search::solve(d, 986112, {1000000, [&] { return ++asked == 3; }, 0});
  CHECK(stopped.verdict == Verdict::stopped);
  CHECK(asked == 3);
  CHECK(stopped.nodes == 3072U);
  CHECK(stopped.placement.offsets.empty());
  const SearchResult limited = search::solve(d, 986112, nodes(5000));
  CHECK(limited.verdict == Verdict::stopped);
  CHECK(limited.nodes == 5000);
  CHECK(search::solve(d, 986112, nodes(0)).verdict == Verdict::stopped);
}

TEST_CASE("Nothing to place fits everywhere") {
  CHECK(search::solve({}, 0).verdict == Verdict::found);
  const Instance empty{"empty", {{0, 0, 3, 64, 0}, {0, 1, 2, 1, 1}}, nullptr};
  const SearchResult result = search::solve(empty, 0);
  REQUIRE(result.verdict == Verdict::found);
  CHECK(check_placement(empty, result.placement).empty());
  CHECK(result.placement.total_bytes == 0);
}

TEST_CASE("Sizes near the end of the number line do not wrap") {
  constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  CHECK(search::solve(two(huge, huge), huge).verdict == Verdict::stopped);
  CHECK(search::solve(two(huge, 2), 1).verdict == Verdict::infeasible);
  constexpr std::uint64_t half = std::uint64_t{1} << 60;
  CHECK(search::solve(two(half, half), 2 * half).verdict == Verdict::found);
  CHECK(search::solve(two(half, half), 2 * half - 1).verdict == Verdict::infeasible);
  CHECK(search::solve(two(half, half), huge).verdict == Verdict::found);
}

TEST_CASE("A part too large to be searched is said to be undecided") {
  Instance crowd{"crowd", {}, nullptr};  // all meet, and none lives all the time
  constexpr std::uint32_t n = search::most_buffers;
  for (std::uint32_t i = 0; i <= n; ++i) crowd.buffers.push_back({1, i, n + i + 1, 1, i});
  CHECK(search::solve(crowd, search::most_buffers + 1).verdict == Verdict::stopped);
  CHECK(search::solve(crowd, search::most_buffers).verdict == Verdict::infeasible);
  for (Buffer& b : crowd.buffers) b.lower = 0, b.upper = 1;
  check_solved(crowd, n + 1, 0);  // what lives all the time needs no search
  for (std::uint32_t i = 0; i <= n; ++i) crowd.buffers[i] = {1, i, i + 1, 1, i};
  check_solved(crowd, 1, 0);
}

}  // namespace terrace::planner
