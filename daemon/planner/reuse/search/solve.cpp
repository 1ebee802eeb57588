#include <algorithm>

#include "daemon/planner/reuse/search/part_search.h"
#include "daemon/planner/reuse/search/search.h"
#include "daemon/planner/reuse/skyline/cut.h"

namespace terrace::planner::search {
namespace {

SearchResult solve_parts(const Instance& instance, std::uint64_t capacity, const SearchLimits& limits) {
  const skyline::Parts all = skyline::cut(instance);
  SearchResult result{Verdict::found, {all.offsets, all.settled_bytes}, 0};
  if (all.settled_bytes > capacity) return {Verdict::infeasible, {}, 0};
  for (const skyline::Part& part : all.parts) {
    const std::uint64_t floor = skyline::first_offset(part);
    if (floor > capacity) return {Verdict::infeasible, {}, result.nodes};
    SearchLimits rest = limits;
    rest.nodes -= result.nodes;
    const Problem problem = problem_of(part);
    PartSearch search(problem, static_cast<std::int64_t>(capacity - floor), rest);
    const Verdict verdict = search.run();
    result.nodes += search.nodes();
    if (verdict != Verdict::found) return {verdict, {}, result.nodes};
    for (std::size_t i = 0; i < problem.items.size(); ++i) {
      const skyline::Block& b = part.blocks[problem.items[i].block];
      std::uint64_t& offset = result.placement.offsets[b.buffer];
      offset = floor + static_cast<std::uint64_t>(search.offsets()[i]);
      result.placement.total_bytes = std::max(result.placement.total_bytes, b.end_at(offset));
    }
  }
  return result;
}

}  // namespace

SearchResult solve(const Instance& instance, std::uint64_t capacity_bytes, const SearchLimits& limits) {
  const std::uint64_t capacity = std::min(capacity_bytes, max_instance_bytes);
  if (live_within(instance, capacity)) return solve_parts(instance, capacity, limits);
  // Above max_instance_bytes nothing is known.
  return {capacity == capacity_bytes ? Verdict::infeasible : Verdict::stopped, {}, 0};
}

}  // namespace terrace::planner::search
