// DeepUM+: at every operation the prefetch of what the one `deepum_ahead` later needs; see page_schedule.h.
#include "daemon/planner/g10/workload.h"

namespace terrace::planner {

Result<PageSchedule> plan_deepum_pages(const wire::Trace& trace, const G10Machine& machine) {
  const auto workload = g10::make_workload(trace, machine, {});
  if (!workload) return refused<PageSchedule>(workload.error);
  PageSchedule schedule{{}, PageVictims::not_soon_used};
  const std::size_t kernels = workload->kernels.size();
  for (std::uint32_t op = 0; op < kernels; ++op) {
    // The artifact's set of needs lists the last one first.
    const auto& needs = workload->kernels[(op + std::size_t{machine.deepum_ahead}) % kernels].needs;
    for (std::size_t i = needs.size(); i-- > 0;)
      schedule.entries.push_back({op, PageAction::fetch, needs[i]});
  }
  return ok(std::move(schedule));
}

}  // namespace terrace::planner
