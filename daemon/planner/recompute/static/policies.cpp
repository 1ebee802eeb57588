#include "daemon/planner/recompute/static/policies.h"

namespace terrace::planner::recompute {

Schedule keep_all(const Step& step) {
  Schedule schedule;
  for (std::uint32_t i = 0; i < step.operations.size(); ++i) {
    schedule.push_back({Move::Kind::compute, i});
    for (const std::uint32_t s : step.operations[i].reads) {
      const Storage& storage = step.storages[s];
      if (!storage.constant() && !storage.kept && storage.readers.back() == i)
        schedule.push_back({Move::Kind::free, s});
    }
  }
  return schedule;
}

const std::vector<StaticPolicy>& direct_policies() {
  static const std::vector<StaticPolicy> all = {
      {"keep all", [](const Step& step, std::uint64_t, const Stop&) { return ok(keep_all(step)); }},
      {"Chen sqrt(n)", [](const Step& step, std::uint64_t, const Stop&) { return chen_sqrt(step); }},
      {"Chen greedy", [](const Step& step, std::uint64_t budget_bytes,
                         const Stop&) { return chen_greedy(step, budget_bytes); }},
      {"chain programme", [](const Step& step, std::uint64_t budget_bytes, const Stop&) {
         return chain_programme(step, budget_bytes);
       }}};
  return all;
}

}  // namespace terrace::planner::recompute
