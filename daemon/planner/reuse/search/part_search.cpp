#include "daemon/planner/reuse/search/part_search.h"

namespace terrace::planner::search {
namespace {

constexpr const char* orders[] = {"WAT", "VWA", "VAT", "VWA", "VAT", "VWA", "VAT"};
constexpr double first_round = 2;  // nodes per buffer: enough for a path that fails nowhere
constexpr double round_growth = 1.5;

}  // namespace

PartSearch::PartSearch(const Problem& problem, std::int64_t capacity, const SearchLimits& limits)
    : problem_(problem),
      limits_(limits),
      capacity_(capacity - capacity % granule(problem)),
      budget_(limits, problem.items.size()),
      activity_(problem.items.size()) {}

Verdict PartSearch::run() {
  if (problem_.bound > capacity_) return Verdict::infeasible;
  if (problem_.items.size() > most_buffers) return Verdict::stopped;
  for (double nodes = first_round * static_cast<double>(problem_.items.size());; nodes *= round_growth) {
    for (const char* keys : orders) {
      const Verdict verdict = round(keys, static_cast<std::uint64_t>(nodes));
      if (verdict != Verdict::stopped || budget_.over()) return verdict;
    }
  }
}

Verdict PartSearch::round(const char* keys, std::uint64_t nodes) {
  const std::vector<std::uint32_t> order = order_by(problem_, keys, activity_, limits_.seed);
  budget_.allow(nodes);
  Engine engine(problem_, capacity_, order, failed_, activity_, budget_);
  const Verdict verdict = engine.run();
  if (verdict == Verdict::found) offsets_ = engine.offsets();
  return verdict;
}

}  // namespace terrace::planner::search
