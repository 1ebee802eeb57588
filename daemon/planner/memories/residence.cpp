#include "daemon/planner/memories/residence.h"

#include <algorithm>
#include <tuple>

namespace terrace::planner::memories {
namespace {

// The operation at or after `position` that names the tensor; the first of the next step where there is none.
std::uint32_t next_use(const Step& step, const Tensor& tensor, std::uint32_t position) {
  for (const std::uint32_t u : tensor.uses)
    if (step.uses[u].op >= position) return step.uses[u].op;
  const auto ops = static_cast<std::uint32_t>(step.ops.size());
  return tensor.uses.empty() ? 2 * ops : ops + step.uses[tensor.uses.front()].op;
}

// Keys are made once: searches call this thousands of times.
void sort_entries(const Step& step, std::vector<Entry>* entries) {
  std::vector<std::tuple<std::uint32_t, bool, std::uint32_t, std::uint32_t>> keyed;
  keyed.reserve(entries->size());
  for (const Entry& e : *entries)
    keyed.emplace_back(e.position, e.move == Move::in, next_use(step, step.tensors[e.tensor], e.position),
                       e.tensor);
  std::sort(keyed.begin(), keyed.end());
  entries->clear();
  for (const auto& [position, in, use, tensor] : keyed)
    entries->push_back({position, tensor, in ? Move::in : Move::out});
}

}  // namespace

Span life(const Tensor& tensor) { return {tensor.first, tensor.last + 1}; }

Plan plan_of(const Step& step, const Residence& residence) {
  const auto ops = static_cast<std::uint32_t>(step.ops.size());
  Plan plan{std::vector<bool>(step.tensors.size(), false), {}};
  for (std::uint32_t t = 0; t < residence.size(); ++t) {
    const Tensor& tensor = step.tensors[t];
    const std::vector<Span>& spans = residence[t];
    if (spans.empty()) continue;
    plan.born_fast[t] = spans.front().begin <= tensor.first;
    const bool over_border = tensor.persistent && plan.born_fast[t] && spans.back().end == ops;
    for (const Span& span : spans) {
      if (span.begin > tensor.first || (tensor.persistent && !over_border))
        plan.entries.push_back({span.begin, t, Move::in});
      const bool stays = tensor.persistent ? span.end == ops && over_border : span.end > tensor.last;
      if (!stays) plan.entries.push_back({span.end, t, Move::out});
    }
  }
  sort_entries(step, &plan.entries);
  return plan;
}

std::uint32_t Room::earliest(std::uint32_t least, std::uint32_t end, std::uint64_t bytes) const {
  if (bytes > limit_) return end;
  const auto full = load_.last_above(least, end, limit_ - bytes);
  return full ? *full + 1 : least;
}

}  // namespace terrace::planner::memories
