// vDNN's dynamic policy (Rhu et al., MICRO'16), section III-C: what is offloaded and by which algorithm each
// layer computes are chosen together, by trying.
//
//     1  nothing leaves, fastest algorithms      fits: nothing is better
//     2  all inputs leave, smallest algorithms   does not fit: the step cannot be trained
//     3  convolutions' inputs leave, then all; fastest algorithms: the first that fits
//     4  the same two with each layer's fastest algorithm that has room in what the tensors leave
//     5  what 2 found
//
// An algorithm is a variant of an operation here, whatever makes it differ (docs/formats/trace.md). The paper
// profiles on the GPU, here the simulator answers whether something fits. Room in 4 is what the plan leaves
// at each operation when it is simulated with the smallest variants; other times move transfers, so that some
// of that room may be gone: it is tried with less of it, too. The abstract and notes on the section were at
// hand, not its text: the forms are theirs, that 1 comes before 2 and how 4 measures room is ours.
#include <algorithm>
#include <initializer_list>

#include "daemon/planner/simulate/policies/policies.h"
#include "daemon/planner/variants.h"

namespace terrace::planner {
namespace {

using OffloadForm = Result<wire::Schedule> (*)(const wire::Trace&, const Machine&);

constexpr double shares_of_room[] = {1, 0.9, 0.5};

class DynamicVdnn {
 public:
  DynamicVdnn(const wire::Trace& trace, const Machine& machine, const SwapControl& control)
      : trace_(trace), machine_(machine), control_(control) {}

  Result<SwapPlan> plan() {
    if (!has_variants(trace_)) return first_of({plan_nothing, plan_vdnn_conv, plan_vdnn_all}, {});
    const auto fastest = within([](std::size_t) { return unlimited_bytes; });
    if (auto p = first_of({plan_nothing}, fastest)) return p;
    const std::vector<std::uint32_t> smallest = within([](std::size_t) { return std::uint64_t{0}; });
    Result<SwapPlan> safe = first_of({plan_vdnn_all}, smallest);
    if (!safe || control_.stopped()) return safe;
    if (auto p = first_of({plan_vdnn_conv, plan_vdnn_all}, fastest)) return p;
    for (const OffloadForm offload : {plan_vdnn_conv, plan_vdnn_all}) {
      if (control_.stopped()) break;
      if (auto p = in_its_room(offload, smallest)) return p;
    }
    return safe;
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const SwapControl& control_;
  SimulationReport report_;  // of the plan that fitted last

  template <class BytesOf>
  std::vector<std::uint32_t> within(BytesOf bytes_of) const {
    std::vector<std::uint32_t> chosen;
    for (std::size_t op = 0; op < trace_.ops.size(); ++op)
      chosen.push_back(fastest_within(trace_.ops[op], bytes_of(op)));
    return chosen;
  }

  // The first that fits; else why the last does not.
  Result<SwapPlan> first_of(std::initializer_list<OffloadForm> offloads,
                            const std::vector<std::uint32_t>& variants) {
    std::string why_not;
    for (const OffloadForm offload : offloads) {
      Result<wire::Schedule> schedule = offload(trace_, machine_);
      if (!schedule) {
        why_not = std::move(schedule.error);
        continue;
      }
      schedule->policy = "vdnn_dynamic";
      schedule->variants = choices_of(variants);
      auto report = simulate_repeated(trace_, machine_, *schedule, Victims::none, !variants.empty());
      if (!report) {
        why_not = std::move(report.error);
        continue;
      }
      report_ = std::move(*report);
      return ok(SwapPlan{std::move(*schedule), Victims::none});
    }
    return refused<SwapPlan>(std::move(why_not));
  }

  Result<SwapPlan> in_its_room(OffloadForm offload, const std::vector<std::uint32_t>& smallest) {
    Result<SwapPlan> plan = first_of({offload}, smallest);
    if (!plan) return plan;
    const std::vector<std::uint64_t> room = room_beside(smallest);
    for (const double share : shares_of_room) {
      const auto chosen = within(
          [&](std::size_t op) { return static_cast<std::uint64_t>(share * static_cast<double>(room[op])); });
      if (auto faster = first_of({offload}, chosen)) return faster;
    }
    return plan;
  }

  // Per operation: bytes of tier 0 that nothing but its own workspace takes while it runs.
  std::vector<std::uint64_t> room_beside(const std::vector<std::uint32_t>& variants) const {
    std::vector<std::uint64_t> room;
    std::size_t next = 0;
    std::uint64_t used = 0;
    const auto& samples = report_.memory;
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
      const OpTiming& t = report_.ops[op];
      for (; next < samples.size() && samples[next].time_us <= t.present_us; ++next)
        used = samples[next].tier_bytes[0];
      std::uint64_t most = used;
      for (std::size_t i = next; i < samples.size() && samples[i].time_us < t.end_us; ++i)
        most = std::max(most, samples[i].tier_bytes[0]);
      const std::uint64_t tensors = most - std::min(most, workspace_bytes(trace_.ops[op], variants[op]));
      room.push_back(machine_.tiers[0].capacity_bytes - std::min(machine_.tiers[0].capacity_bytes, tensors));
    }
    return room;
  }
};

}  // namespace

Result<SwapPlan> plan_vdnn_dynamic(const wire::Trace& trace, const Machine& machine,
                                   const SwapControl& control) {
  return DynamicVdnn(trace, machine, control).plan();
}

}  // namespace terrace::planner
