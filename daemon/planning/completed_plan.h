// A plan that leaves nothing open.
//
// The published policies plan the moves that they have thought of and leave the rest to a rule: what an
// operation lacks room for is evicted when it asks, what it lacks is fetched while it waits. The simulator
// applies such a rule with knowledge of the future (Belady's); the pager of a job has none, and it would have
// to guess. So what the simulator did on demand becomes entries of the plan: a way out as early as the
// object's last use and the link allow, a way back early enough to be over when the operation begins.
//
//     simulated      use ········ room is short: out ····· needed: in, waited for │use
//     completed      use │out ································· in ─────────────▶ │use
//
// Pure. O((transfers + entries) log n).
#pragma once

#include "daemon/planner/simulate/simulator.h"
#include "liballoc/wire/trace.h"

namespace terrace::daemon {

// `report`: of that plan for that trace, with its timeline. The same plan where nothing was done on demand.
// Every entry has its deadline.
planner::SwapPlan completed(const wire::Trace& trace, const planner::SwapPlan& plan,
                            const planner::SimulationReport& report);

}  // namespace terrace::daemon
