// Branch and bound against all answers.
#include "daemon/planner/memories/branching.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

namespace terrace::planner::memories {
namespace {

// What is left out of a knapsack.
struct Knapsack {
  std::vector<double> values, weights;
  double limit = 0;

  double left_out(std::uint32_t taken) const {
    double weight = 0, left = 0;
    for (std::uint32_t i = 0; i < values.size(); ++i)
      (taken >> i & 1 ? weight : left) += taken >> i & 1 ? weights[i] : values[i];
    return weight <= limit ? left : std::numeric_limits<double>::infinity();
  }
  double least() const {
    double least = left_out(0);
    for (std::uint32_t taken = 1; taken < 1U << values.size(); ++taken)
      least = std::min(least, left_out(taken));
    return least;
  }
};

Knapsack random_knapsack(std::mt19937_64& random) {
  Knapsack k;
  for (int i = 0; i < 10; ++i) {
    k.values.push_back(1 + static_cast<double>(random() % 50));
    k.weights.push_back(1 + static_cast<double>(random() % 50));
    k.limit += k.weights.back() / 2;
  }
  return k;
}

}  // namespace

TEST_CASE("Branch and bound finds the least whole solution and a bound that holds") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) {
    const Knapsack k = random_knapsack(random);
    LinearProgramme programme;
    const std::uint32_t row = programme.add_row(-without_limit, k.limit);
    std::vector<std::uint32_t> whole;
    double all = 0, best = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < k.values.size(); ++c) {
      whole.push_back(programme.add_column(-k.values[c], 0, 1));
      programme.add(row, whole.back(), k.weights[c]);
      all += k.values[c];
    }
    const auto round = [&](const std::vector<double>& values) {  // down: always fits
      std::uint32_t taken = 0;
      for (std::size_t c = 0; c < values.size(); ++c) taken |= values[c] > 1 - 1e-6 ? 1U << c : 0;
      best = std::min(best, k.left_out(taken) - all);
      return best;
    };
    const Branched few = branch(programme, whole, round, {.most_nodes = 1});
    CHECK(few.bound <= k.least() - all + 1e-6);
    CHECK(few.nodes == 1);
    const Branched b = branch(programme, whole, round, {.most_nodes = 5000, .gap = 0});
    INFO("knapsack " << i << ", " << b.nodes << " nodes");
    CHECK(best == Approx(k.least() - all));
    CHECK(b.bound == Approx(k.least() - all));
  }
}

}  // namespace terrace::planner::memories
