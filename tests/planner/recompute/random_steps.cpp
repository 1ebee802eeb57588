#include "tests/planner/recompute/random_steps.h"

#include <algorithm>
#include <random>

namespace terrace::planner::test {

recompute::Step random_step(std::uint64_t seed, std::uint32_t operations) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  recompute::StepBuilder builder;
  std::vector<std::uint32_t> storages;
  std::size_t unread = 0;  // from here on
  storages.reserve(3 + std::size_t{2} * operations);
  for (int i = 0; i < 3; ++i) storages.push_back(builder.add_constant(1 + below(50)));
  for (std::uint32_t i = 0; i < operations; ++i) {
    std::vector<std::uint32_t> reads;
    for (std::uint32_t n = below(3); n > 0; --n) reads.push_back(storages[below(storages.size())]);
    for (std::uint32_t n = 1 + below(2); n > 0 && unread < storages.size(); --n)
      reads.push_back(storages[unread++]);
    builder.add_operation(1 + below(100), reads);
    if (below(6) == 0) builder.set_workspace(below(30));
    if (below(12) == 0) continue;
    for (std::uint32_t n = 1 + below(2); n > 0; --n) storages.push_back(builder.add_result(1 + below(100)));
  }
  return builder.finish();
}

void add_line(recompute::StepBuilder* builder, std::uint32_t operations, std::uint64_t bytes) {
  std::vector<std::uint32_t> reads;
  for (std::uint32_t i = 0; i < operations; ++i) {
    builder->add_operation(1, reads);
    reads = {builder->add_result(bytes)};
  }
}

recompute::Step unit_chain(std::uint32_t layers) {
  recompute::StepBuilder builder;
  add_line(&builder, layers + 1, 1);
  std::uint32_t gradient = layers;
  for (std::uint32_t i = layers; i-- > 0;) {
    std::vector<std::uint32_t> reads{gradient, i};
    if (i > 0) reads.push_back(i - 1);
    builder.add_operation(1, reads);
    if (i + 1 == layers) builder.begin_backward();
    gradient = builder.add_result(1);
  }
  return builder.finish();
}

}  // namespace terrace::planner::test
