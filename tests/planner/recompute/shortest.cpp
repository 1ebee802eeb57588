#include "tests/planner/recompute/shortest.h"

#include <catch2/catch.hpp>
#include <queue>

namespace terrace::planner::test {
namespace {

using recompute::Operation;
using recompute::Step;

std::uint64_t bytes_of(const Step& step, std::uint32_t set) {
  std::uint64_t bytes = 0;
  for (std::uint32_t s = 0; s < step.storages.size(); ++s)
    if ((set >> s & 1) != 0) bytes += step.storages[s].bytes;
  return bytes;
}

std::uint32_t set_of(const std::vector<std::uint32_t>& storages) {
  std::uint32_t set = 0;
  for (const std::uint32_t s : storages) set |= 1U << s;
  return set;
}

}  // namespace

std::optional<std::int64_t> least_cost_ns(const Step& step, std::uint64_t budget_bytes) {
  REQUIRE(step.storages.size() <= 16);
  std::vector<std::int64_t> least(std::size_t{1} << step.storages.size(), -1);
  using Entry = std::pair<std::int64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  open.emplace(0, 0);
  while (!open.empty()) {
    const auto [cost, set] = open.top();
    open.pop();
    if (least[set] >= 0) continue;
    least[set] = cost;
    if ((set >> (step.storages.size() - 1) & 1) != 0) return cost;
    for (std::uint32_t s = 0; s < step.storages.size(); ++s)
      if ((set >> s & 1) != 0) open.emplace(cost, set & ~(1U << s));
    for (const Operation& op : step.operations) {
      const std::uint32_t reads = set_of(op.reads);
      if ((set & reads) != reads || bytes_of(step, set) + op.made_bytes > budget_bytes) continue;
      open.emplace(cost + op.cost_ns, set | set_of(op.makes));
    }
  }
  return std::nullopt;
}

}  // namespace terrace::planner::test
