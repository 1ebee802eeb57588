// The load tree against loops over all sections.
#include "daemon/planner/load_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace terrace::planner {
namespace {

using Loads = std::vector<std::uint64_t>;

void check_peak(const LoadTree& tree, const Loads& loads, std::uint32_t lower, std::uint32_t upper) {
  const LoadTree::Peak peak = tree.peak(lower, upper);
  const auto most = std::max_element(loads.begin() + lower, loads.begin() + upper);
  REQUIRE(peak.bytes == *most);
  REQUIRE(peak.section == static_cast<std::uint32_t>(most - loads.begin()));
}

std::optional<std::uint32_t> last_by_looking(const Loads& loads, std::uint32_t lower, std::uint32_t upper,
                                             std::uint64_t limit) {
  for (std::uint32_t s = upper; s-- > lower;) {
    if (loads[s] > limit) return s;
  }
  return std::nullopt;
}

TEST_CASE("The load tree says what a loop over the sections says") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    Loads loads(1 + random() % 70);
    for (std::uint64_t& l : loads) l = 1000 + random() % 50;
    LoadTree tree;
    tree.reset(loads);
    for (int step = 0; step < 100; ++step) {
      const auto lower = static_cast<std::uint32_t>(random() % loads.size());
      const auto upper = static_cast<std::uint32_t>(lower + 1 + random() % (loads.size() - lower));
      check_peak(tree, loads, lower, upper);
      REQUIRE(tree.peak_bytes() == *std::max_element(loads.begin(), loads.end()));
      const std::uint64_t limit = 900 + random() % 200;
      REQUIRE(tree.last_above(lower, upper, limit) == last_by_looking(loads, lower, upper, limit));
      REQUIRE_FALSE(tree.last_above(lower, lower, 0));
      const std::uint64_t bytes = random() % 10;
      const bool adds = random() % 3 == 0;
      adds ? tree.add(lower, upper, bytes) : tree.subtract(lower, upper, bytes);
      for (std::uint32_t s = lower; s < upper; ++s) loads[s] += adds ? bytes : 0 - bytes;
    }
  }
}

// What a node was given must not make its children's own numbers wrap around.
TEST_CASE("The load tree counts below zero, too") {
  LoadTree tree;
  tree.reset({5, 5, 5, 5});
  tree.add(0, 4, 7);
  tree.subtract(2, 3, 12);
  CHECK(tree.peak(2, 4).bytes == 12);
  CHECK(tree.peak(2, 3).bytes == 0);
  CHECK(tree.last_above(0, 3, 0) == 1U);
  tree.subtract(0, 4, 20);
  CHECK(tree.peak(0, 4).bytes == std::uint64_t{0} - 8);
  CHECK(tree.last_above(0, 4, std::uint64_t{0} - 9) == 3U);
}

}  // namespace
}  // namespace terrace::planner
