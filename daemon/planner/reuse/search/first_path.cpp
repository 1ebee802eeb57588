#include "daemon/planner/reuse/search/first_path.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "daemon/planner/reuse/skyline/pass.h"

namespace terrace::planner::search {
namespace {

// Items as the skyline has them: `of` is by block.
struct Blocks {
  skyline::Part part;
  std::vector<std::uint32_t> of;

  explicit Blocks(const Problem& problem) : of(problem.items.size()) {
    std::iota(of.begin(), of.end(), 0U);
    std::sort(of.begin(), of.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Item &x = problem.items[a], &y = problem.items[b];
      return std::tuple(x.first, -x.last, a) < std::tuple(y.first, -y.last, b);
    });
    part.sections = static_cast<std::uint32_t>(problem.sections);
    for (const std::uint32_t i : of) {
      const Item& item = problem.items[i];
      skyline::Block block;
      block.bytes = static_cast<std::uint64_t>(item.bytes);
      block.lower = static_cast<std::uint32_t>(item.first);
      block.upper = static_cast<std::uint32_t>(item.last) + 1;
      block.alignment = static_cast<std::uint64_t>(item.alignment);
      part.blocks.push_back(block);
    }
  }
};

}  // namespace

std::vector<std::int64_t> first_path(const Problem& problem, std::span<const std::uint32_t> order) {
  const Blocks blocks(problem);
  std::vector<float> rank(order.size()), priority;  // whole numbers below 2^24: exact
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<float>(order.size() - i);
  for (const std::uint32_t i : blocks.of) priority.push_back(rank[i]);
  skyline::Rule rule;
  rule.capacity_bytes = rule.cutoff_bytes = ~std::uint64_t{0};
  rule.fill = skyline::Fill::by_priority;
  rule.priority = priority;
  std::vector<std::uint64_t> placed;
  skyline::Pass(blocks.part).place(rule, &placed);
  std::vector<std::int64_t> offsets(order.size());
  for (std::size_t b = 0; b < placed.size(); ++b)
    offsets[blocks.of[b]] = static_cast<std::int64_t>(placed[b]);
  return offsets;
}

}  // namespace terrace::planner::search
