#include <algorithm>

#include "daemon/planner/reuse/search/partition_search.h"
#include "daemon/planner/reuse/search/search.h"

namespace terrace::planner::search {
namespace {

void write(const Problem& problem, const std::vector<std::int64_t>& offsets, Placement& placement) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto offset = static_cast<std::uint64_t>(offsets[i]);
    placement.offsets[problem.items[i].buffer] = offset;
    placement.total_bytes =
        std::max(placement.total_bytes, offset + static_cast<std::uint64_t>(problem.items[i].bytes));
  }
}

SearchResult solve_partitions(const Instance& instance, std::int64_t capacity, const SearchLimits& limits) {
  SearchResult result{Verdict::found, {std::vector<std::uint64_t>(instance.buffers.size()), 0}, 0};
  for (const Problem& problem : partitions(instance)) {
    SearchLimits rest = limits;
    rest.nodes -= result.nodes;
    PartitionSearch partition(problem, capacity, rest);
    const Verdict verdict = partition.run();
    result.nodes += partition.nodes();
    if (verdict != Verdict::found) return {verdict, {}, result.nodes};
    write(problem, partition.offsets(), result.placement);
  }
  return result;
}

}  // namespace

SearchResult solve(const Instance& instance, std::uint64_t capacity_bytes, const SearchLimits& limits) {
  const std::uint64_t capacity = std::min(capacity_bytes, max_instance_bytes);
  if (live_within(instance, capacity))
    return solve_partitions(instance, static_cast<std::int64_t>(capacity), limits);
  // Above max_instance_bytes nothing is known.
  return {capacity == capacity_bytes ? Verdict::infeasible : Verdict::stopped, {}, 0};
}

}  // namespace terrace::planner::search
