// vDNN (Rhu et al., MICRO'16), section III: the inputs of a layer leave during its forward computation, by
// the layer that uses them last, and come back one layer ahead of the backward computation that needs them.
//
// A layer is an operation here. At the end of each layer vDNN waits for what it moved during it; vDNN++
// (shriramsb/vdnn-plus-plus, IPDPS'19) is the same without that wait, which is what its README names first.
// Of what else that README names, ways to place buffers with fewer holes between them, and compression on the
// CPU of what lies in host memory, nothing shows here: tier 0 counts bytes, and the link carries as many as
// before. vDNN's dynamic policy is in vdnn_dynamic.cpp. There is no fallback here: what does not fit fails.
#include <algorithm>
#include <cctype>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;

struct Form {
  const char* name;
  bool convolutions_only = false;
  bool waits = false;  // at each layer's end
};

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

// Gaps of what is offloaded, over the turn to backward, in the order in which they end.
std::vector<Gap> offloads(const wire::Trace& trace, std::uint32_t backward, bool convolutions_only) {
  const std::vector<bool> offloaded = layer_inputs(trace, backward, convolutions_only);
  std::vector<Gap> gaps;
  for (const Gap& gap : gaps_of(trace)) {
    if (!gap.wraps && offloaded[gap.tensor] && gap.from < backward && gap.to >= backward) gaps.push_back(gap);
  }
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const Gap& a, const Gap& b) { return a.to != b.to ? a.to < b.to : a.from < b.from; });
  return gaps;
}

Result<wire::Schedule> plan(const wire::Trace& trace, const Machine& machine, const Form& form) {
  const std::optional<std::uint32_t> backward = backward_begin(trace);
  if (!backward)
    return refused<wire::Schedule>("the trace has no gradients, and therefore no backward pass to plan for");
  FarTiers far(trace, machine);
  const std::vector<Gap> gaps = offloads(trace, *backward, form.convolutions_only);
  const std::vector<std::uint32_t> first = first_named(trace);
  std::vector<wire::ScheduleEntry> entries;  // waits: a layer ends before the next one moves anything
  std::vector<wire::ScheduleEntry> evictions, prefetches;
  std::uint32_t ahead = *backward;  // the backward operation before the one that needs the tensor
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const Gap& gap = gaps[i];
    if (i > 0 && gaps[i - 1].to < gap.to) ahead = gaps[i - 1].to;
    const std::optional<std::uint32_t> tier = far.place(gap, trace.tensors[gap.tensor].bytes);
    if (!tier) return refused<wire::Schedule>("no tier has room for all that vDNN offloads");
    const std::uint32_t out = leaves_early(trace, first, gap) ? gap.from : gap.from + 1;
    const std::uint32_t in = std::max(ahead, out);
    evictions.push_back({out, gap.tensor, Action::out, *tier, {}});
    prefetches.push_back({in, gap.tensor, Action::in, *tier, {}});
    if (form.waits && out < in) entries.push_back({out + 1, gap.tensor, Action::wait, 0, {}});
    if (form.waits) entries.push_back({in + 1, gap.tensor, Action::wait, 0, {}});
  }
  entries.insert(entries.end(), evictions.rbegin(), evictions.rend());  // last used first
  entries.insert(entries.end(), prefetches.begin(), prefetches.end());
  return ok(sorted_schedule(trace, form.name, entries));
}

}  // namespace

Result<wire::Schedule> plan_vdnn_all(const wire::Trace& trace, const Machine& machine) {
  return plan(trace, machine, {"vdnn_all", false, true});
}

Result<wire::Schedule> plan_vdnn_conv(const wire::Trace& trace, const Machine& machine) {
  return plan(trace, machine, {"vdnn_conv", true, true});
}

Result<wire::Schedule> plan_vdnnpp_all(const wire::Trace& trace, const Machine& machine) {
  return plan(trace, machine, {"vdnnpp_all", false, false});
}

Result<wire::Schedule> plan_vdnnpp_conv(const wire::Trace& trace, const Machine& machine) {
  return plan(trace, machine, {"vdnnpp_conv", true, false});
}

}  // namespace terrace::planner
