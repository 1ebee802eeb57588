// The table with the policy that needs a solver: apart, so that who does without it links none.
#include "daemon/planner/recompute/static/policies.h"

namespace terrace::planner::recompute {

StaticPolicy relaxation_policy() { return {"Checkmate rounded", checkmate_rounded}; }

const std::vector<StaticPolicy>& static_policies() {
  static const std::vector<StaticPolicy> all = [] {
    std::vector<StaticPolicy> policies = direct_policies();
    policies.push_back(relaxation_policy());
    return policies;
  }();
  return all;
}

}  // namespace terrace::planner::recompute
