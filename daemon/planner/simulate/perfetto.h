// A timeline for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <string>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

// Chrome's JSON trace format ("traceEvents"): operations, other work and stalls, one track per queue, one
// counter of bytes per tier. The report must have been made with record_timeline, of this trace and machine.
std::string perfetto_json(const wire::Trace& trace, const Machine& machine, const SimulationReport& report);

}  // namespace terrace::planner
