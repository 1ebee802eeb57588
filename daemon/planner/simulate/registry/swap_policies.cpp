#include <algorithm>

#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/joint/joint.h"
#include "daemon/planner/simulate/policies/compressing.h"
#include "daemon/planner/simulate/policies/gist.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {

Result<wire::Schedule> plan_nothing(const wire::Trace& trace, const Machine& machine) {
  return ok(wire::Schedule{trace.name + " on " + machine.name, "on demand", {}});
}

namespace {

Result<SwapPlan> as_planned(const SwapPolicy& policy, const wire::Trace& trace, const Machine& machine,
                            const SwapControl& control) {
  Result<SwapPlan> plan;
  if (policy.search != nullptr) {
    plan = policy.search(trace, machine, control);
  } else {
    Result<wire::Schedule> schedule = policy.solve(trace, machine);
    if (!schedule) return refused<SwapPlan>(std::move(schedule.error));
    plan = ok(SwapPlan{std::move(*schedule), policy.victims});
  }
  if (plan) describe(trace, &*plan);
  return plan;
}

// What changes a plan afterwards counts by the trace's operations.
SwapControl with_recorded_order(SwapControl control) {
  control.keeps_order = true;
  return control;
}

Result<SwapPlan> with_moves_compressed(const SwapPolicy& policy, const wire::Trace& trace,
                                       const Machine& machine, const SwapControl& control) {
  if (std::string why = nothing_to_compress(trace, machine); !why.empty())
    return refused<SwapPlan>(std::move(why));
  Result<SwapPlan> plan = as_planned(policy, trace, machine, with_recorded_order(control));
  if (plan) plan = ok(compressed(trace, machine, std::move(*plan), policy.coding));
  return plan;
}

Result<SwapPlan> with_rests_encoded(const SwapPolicy& policy, const wire::Trace& trace,
                                    const Machine& machine, const SwapControl& control) {
  if (std::string why = nothing_to_encode(trace, machine); !why.empty())
    return refused<SwapPlan>(std::move(why));
  const EncodedStep step(trace, machine);
  Result<SwapPlan> plan = as_planned(policy, step.stand_in(), machine, with_recorded_order(control));
  if (plan) plan = ok(step.translated(*plan));
  if (plan) describe(trace, &*plan);
  return plan;
}

}  // namespace

Result<SwapPlan> SwapPolicy::plan(const wire::Trace& trace, const Machine& machine,
                                  const SwapControl& control) const {
  if (coding == Coding::as_planned) return as_planned(*this, trace, machine, control);
  Result<SwapPlan> plan = coding == Coding::in_place ? with_rests_encoded(*this, trace, machine, control)
                                                     : with_moves_compressed(*this, trace, machine, control);
  if (plan) plan->policy = name;
  return plan;
}

bool SwapPolicy::moves_on_demand_only() const { return solve == plan_nothing; }

std::vector<SwapPolicy> published_swap_policies() {
  return {
      {"keep", "none", "everything stays in tier 0", Victims::none, plan_nothing},
      {"lru", "on demand", "demand paging of tensors, least recently used (Base UVM in G10, MICRO'23)",
       Victims::lru, plan_nothing},
      {"fifo", "on demand", "demand paging, first in first out (what G10's artifact calls LRU)",
       Victims::fifo, plan_nothing},
      {"belady", "on demand", "demand paging with knowledge of the future (Belady, IBM Systems Journal 1966)",
       Victims::belady, plan_nothing},
      {"deepum", "deepum", "DeepUM (ASPLOS'23), as G10's artifact rebuilds it: prefetch 8 operations ahead",
       Victims::lru, plan_deepum},
      {"vdnn_all", "vdnn", "vDNN (MICRO'16), section III: offload all feature maps", Victims::none,
       plan_vdnn_all},
      {"vdnn_conv", "vdnn", "vDNN (MICRO'16), section III: offload inputs of convolutions", Victims::none,
       plan_vdnn_conv},
      {"vdnn_dynamic", "vdnn",
       "vDNN (MICRO'16), section III-C: what leaves and each layer's variant, by trying", Victims::none,
       nullptr, plan_vdnn_dynamic, true},
      {"vdnnpp_all", "vdnn", "vDNN++ (IPDPS'19): all feature maps, without a wait at each layer's end",
       Victims::none, plan_vdnnpp_all},
      {"vdnnpp_conv", "vdnn", "vDNN++ (IPDPS'19): inputs of convolutions, without a wait at each layer's end",
       Victims::none, plan_vdnnpp_conv},
      {"modnn", "modnn", "moDNN (DATE'18): offloading, algorithms and sub-batches against a budget",
       Victims::none, nullptr, plan_modnn, true},
      {"superneurons", "superneurons",
       "SuperNeurons (PPoPP'18): cheap layers computed again, an LRU cache of the others", Victims::lru,
       plan_superneurons},
      {"flashneuron", "flashneuron", "FlashNeuron (FAST'21), section 4: two-phase offload to the SSD",
       Victims::none, plan_flashneuron},
      {"cdma", "compressing", "cDMA (HPCA'18): vdnn_all, with all that is sparse compressed", Victims::none,
       plan_vdnn_all, nullptr, false, Coding::always},
      {"cswap", "compressing", "CSWAP (CLUSTER'21): vdnnpp_all, compressed where it is predicted to pay",
       Victims::none, plan_vdnnpp_all, nullptr, false, Coding::where_it_pays},
      {"gist", "compressing", "Gist (ISCA'18): what is sparse rests encoded where it lies; nothing moves",
       Victims::none, plan_nothing, nullptr, false, Coding::in_place},
      {"swapadvisor_first", "swapadvisor",
       "SwapAdvisor (ASPLOS'20) without its search: Belady's rule, as early as possible both ways",
       Victims::belady, plan_swapadvisor_first},
      {"swapadvisor", "swapadvisor", "SwapAdvisor (ASPLOS'20): genetic search over who leaves for whom",
       Victims::belady, nullptr, plan_swapadvisor},
      {"capuchin_swap", "capuchin", "Capuchin (ASPLOS'20), section 4: by free time; swap only", Victims::lru,
       plan_capuchin_swap},
      {"capuchin", "capuchin", "Capuchin (ASPLOS'20), section 4: by free time, and recomputation by MSPS",
       Victims::lru, plan_capuchin},
      {"sentinel_interval", "sentinel", "Sentinel (HPCA'21): migration intervals of k operations",
       Victims::lru, plan_sentinel_interval},
      {"g10", "g10", "G10 (MICRO'23), section 4: smart tensor migration, without its pages", Victims::fifo,
       plan_g10},
  };
}

std::vector<SwapPolicy> swap_policies() {
  std::vector<SwapPolicy> all = published_swap_policies();
  all.push_back({"joint", "terrace",
                 "Terrace: search over keeping, moving and recomputing, from the best published plan",
                 Victims::belady, nullptr, joint::plan_jointly, true});
  return all;
}

namespace {

struct Decorator {
  std::string suffix;
  Coding coding;
};

Result<SwapPolicy> decorated(const std::string& name, const Decorator& d) {
  Result<SwapPolicy> policy = swap_policy(name.substr(0, name.size() - d.suffix.size()));
  if (!policy) return policy;
  if (policy->moves_on_demand_only() && d.coding != Coding::in_place)
    return refused<SwapPolicy>("'" + policy->name + "' plans no move that could be compressed; put " +
                               d.suffix + " behind a policy that plans its moves, as in swapadvisor" +
                               d.suffix);
  if (policy->coding != Coding::as_planned)
    return refused<SwapPolicy>("'" + policy->name + "' compresses its moves already; leave " + d.suffix +
                               " out");
  policy->name = name;
  policy->coding = d.coding;
  return policy;
}

}  // namespace

Result<SwapPolicy> swap_policy(const std::string& name) {
  for (const Decorator& d : {Decorator{"+cdma", Coding::always}, Decorator{"+cswap", Coding::where_it_pays},
                             Decorator{"+gist", Coding::in_place}})
    if (name.ends_with(d.suffix)) return decorated(name, d);
  std::vector<SwapPolicy> all = swap_policies();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const SwapPolicy& policy) { return policy.name == name; });
  if (found != all.end()) return ok(std::move(*found));
  return refused<SwapPolicy>("no policy '" + name +
                             "' moves tensors; 'terrace plan --list' names those that do");
}

}  // namespace terrace::planner
