// The published planners, each in a file of its own; swap_policies() is the table.
#pragma once

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

Result<wire::Schedule> plan_nothing(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_vdnn_all(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_vdnn_conv(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_vdnnpp_all(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_vdnnpp_conv(const wire::Trace& trace, const Machine& machine);
Result<SwapPlan> plan_vdnn_dynamic(const wire::Trace& trace, const Machine& machine,
                                   const SwapControl& control);
Result<wire::Schedule> plan_superneurons(const wire::Trace& trace, const Machine& machine);
Result<SwapPlan> plan_modnn(const wire::Trace& trace, const Machine& machine, const SwapControl& control);
Result<wire::Schedule> plan_deepum(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_swapadvisor_first(const wire::Trace& trace, const Machine& machine);
Result<SwapPlan> plan_swapadvisor(const wire::Trace& trace, const Machine& machine,
                                  const SwapControl& control);
Result<wire::Schedule> plan_flashneuron(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_capuchin_swap(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_capuchin(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_sentinel_interval(const wire::Trace& trace, const Machine& machine);
Result<wire::Schedule> plan_g10(const wire::Trace& trace, const Machine& machine);

}  // namespace terrace::planner
