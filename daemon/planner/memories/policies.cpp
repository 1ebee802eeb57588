#include "daemon/planner/memories/policies.h"

namespace terrace::planner::memories {

Planned plan_first_touch(const Step& step, const Control& /*control*/) {
  Plan plan{std::vector<bool>(step.tensors.size(), true), {}};
  const double total_us = simulate(step, plan).total_us;
  return {std::move(plan), total_us, 0};
}

const std::vector<Policy>& policies() {
  static const std::vector<Policy> all{
      {"first_touch", "everything comes to be in the fast memory until that is full, and nothing moves",
       plan_first_touch},
      {"autotm_static", "AutoTM (ASPLOS'20), section 4: integer programme over places", plan_autotm_static},
      {"autotm_moves", "AutoTM (ASPLOS'20), section 4: integer programme over places and asynchronous moves",
       plan_autotm_moves},
      {"sentinel_interval", "Sentinel (HPCA'21): migration intervals alone", plan_sentinel_interval},
      {"sentinel", "Sentinel (HPCA'21): short-lived pool, page groups, tried intervals, test and trial",
       plan_sentinel},
      {"search", "Terrace: search over stays in the fast memory, from the best of the others", plan_search},
  };
  return all;
}

}  // namespace terrace::planner::memories
