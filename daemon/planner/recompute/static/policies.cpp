#include "daemon/planner/recompute/static/policies.h"

#include "daemon/planner/recompute/static/stages.h"

namespace terrace::planner::recompute {

Schedule keep_all(const Step& step) {
  Stages stages(step);
  for (std::uint32_t s = 0; s < step.storages.size(); ++s) stages.keep_to_last_reader(s);
  return stages.schedule();
}

const std::vector<StaticPolicy>& static_policies() {
  static const std::vector<StaticPolicy> all = {
      {"keep all", [](const Step& step, std::uint64_t) { return ok(keep_all(step)); }},
      {"Chen sqrt(n)", [](const Step& step, std::uint64_t) { return chen_sqrt(step); }},
      {"Chen greedy", chen_greedy},
      {"chain programme",
       [](const Step& step, std::uint64_t budget_bytes) { return chain_programme(step, budget_bytes); }},
      {"Checkmate rounded", checkmate_rounded}};
  return all;
}

}  // namespace terrace::planner::recompute
