// A plan whose contents in tier 0 can be given addresses, made of a planner that counts bytes.
//
// A plan for fewer bytes leaves room for what fragmentation wastes. So where the addresses of a plan do not
// fit, the step is planned again, from that plan, with tier 0 smaller by what was missing, then by twice as
// much or more; the answer says in Schedule::spare_bytes how much it leaves free. Once such a plan fits, what
// lies half way to a spare that was too little is tried:
//
//     spare bytes   0 ────────────── x ──────────── missing
//                   does not fit     tried next     fits
#pragma once

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

using PlanByBytes = Result<SwapPlan> (*)(const wire::Trace&, const Machine&, const SwapControl&);

// What `by_bytes` plans, where its addresses fit (addresses.h) or tier 0 is paged or without limit, so that
// none are needed. Otherwise the fastest whose addresses fit of the plans for at most 4 smaller tiers, from
// that plan, one for the last of these tiers made anew, and the plans of all published policies; of ours each
// with a fraction of the effort. Where none fits, what `by_bytes` plans. Refused as by it. Deterministic if
// it is. With `control.from` nothing is made anew, and no other policy asked; where that plan spares
// something, it is first planned again sparing as much.
Result<SwapPlan> plan_with_addresses(const wire::Trace& trace, const Machine& machine,
                                     const SwapControl& control, PlanByBytes by_bytes);

}  // namespace terrace::planner
