// vDNN (Rhu et al., MICRO'16), section III: the inputs of a layer leave during its forward computation, by
// the layer that uses them last, and come back one layer ahead of the backward computation that needs them.
//
// A layer is an operation here. vDNN also makes the next layer wait for the offload's end; a schedule cannot
// say so, the next operation waits only for memory that it needs. It has no fallback: what does not fit
// fails.
#include <algorithm>
#include <cctype>

#include "daemon/planner/simulate/policies/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;

bool is_convolution(const wire::TraceOp& op) {
  std::string name = op.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("conv") != std::string::npos;
}

// Which tensors are inputs of a forward operation, or of a forward convolution.
std::vector<bool> layer_inputs(const wire::Trace& trace, std::uint32_t backward, bool convolutions_only) {
  std::vector<bool> is(trace.tensors.size(), false);
  for (std::uint32_t op = 0; op < backward; ++op) {
    if (convolutions_only && !is_convolution(trace.ops[op])) continue;
    for (const std::uint32_t t : trace.ops[op].inputs) is[t] = !trace.tensors[t].persistent;
  }
  return is;
}

// The first operation that names each tensor; the number of operations where none does.
std::vector<std::uint32_t> first_named(const wire::Trace& trace) {
  const auto ops = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<std::uint32_t> first(trace.tensors.size(), ops);
  for (std::uint32_t op = ops; op-- > 0;) {
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs}) {
      for (const std::uint32_t t : *list) first[t] = op;
    }
  }
  return first;
}

// Whether the tensor may begin to leave while its last forward operation runs: it is there before, and only
// read.
bool leaves_early(const wire::Trace& trace, const std::vector<std::uint32_t>& first, const Gap& gap) {
  const auto& written = trace.ops[gap.from].outputs;
  return first[gap.tensor] < gap.from &&
         std::find(written.begin(), written.end(), gap.tensor) == written.end();
}

Result<wire::Schedule> plan(const wire::Trace& trace, const Machine& machine, const char* name,
                            bool convolutions_only) {
  const std::optional<std::uint32_t> backward = backward_begin(trace);
  if (!backward) return refused<wire::Schedule>("the trace has no gradient, so no backward pass to plan for");
  FarTiers far(trace, machine);
  const std::vector<bool> offloaded = layer_inputs(trace, *backward, convolutions_only);
  std::vector<Gap> gaps;
  for (const Gap& gap : gaps_of(trace)) {
    if (!gap.wraps && offloaded[gap.tensor] && gap.from < *backward && gap.to >= *backward)
      gaps.push_back(gap);
  }
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const Gap& a, const Gap& b) { return a.to != b.to ? a.to < b.to : a.from < b.from; });
  const std::vector<std::uint32_t> first = first_named(trace);
  std::vector<wire::ScheduleEntry> entries;
  std::vector<wire::ScheduleEntry> evictions;  // last used first
  std::uint32_t ahead = *backward;             // the backward operation before the one that needs the tensor
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const Gap& gap = gaps[i];
    if (i > 0 && gaps[i - 1].to < gap.to) ahead = gaps[i - 1].to;
    const std::optional<std::uint32_t> tier = far.place(gap, trace.tensors[gap.tensor].bytes);
    if (!tier) return refused<wire::Schedule>("no tier has room for all that vDNN offloads");
    const std::uint32_t during = leaves_early(trace, first, gap) ? gap.from : gap.from + 1;
    evictions.push_back({during, gap.tensor, Action::evict, *tier, {}});
    entries.push_back({std::max(ahead, during), gap.tensor, Action::prefetch, *tier, {}});
  }
  entries.insert(entries.begin(), evictions.rbegin(), evictions.rend());
  return ok(sorted_schedule(trace, name, std::move(entries)));
}

}  // namespace

Result<wire::Schedule> plan_vdnn_all(const wire::Trace& trace, const Machine& machine) {
  return plan(trace, machine, "vdnn_all", false);
}

Result<wire::Schedule> plan_vdnn_conv(const wire::Trace& trace, const Machine& machine) {
  return plan(trace, machine, "vdnn_conv", true);
}

}  // namespace terrace::planner
