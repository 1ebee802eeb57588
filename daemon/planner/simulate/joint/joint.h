// One search over keeping, moving, recomputing and the order of operations, that starts where the published
// policies end.
//
// Every published policy plans the step, the simulator times each plan as `terrace plan` does, and the best
// is the first answer: the search is never worse than any of them. Where the machine has a codec for what the
// step has of sparse tensors, each plan is also tried with its moves compressed, by either rule of
// policies/compressing.h, and the whole search runs a second time without codecs, so that they never make a
// plan slower. Then
//   1. choices are built that mix the two ways to save memory: what can be computed again for less than a
//      bound per byte is dropped, the rest moves by Belady's rule; for a row of such bounds. Others are read
//      from plans that only recompute (remade.h), for this budget and larger ones, and the rest moves. What
//      moves is tried as it is, and compressed where that is predicted to pay;
//   2. the best choices, built or read from published plans, are changed a few at a time, where their
//      simulated step stalls (moves.h), and every change is timed by the simulator itself. Worse ones are
//      accepted within a margin that shrinks to nothing (threshold accepting: Dueck and Scheuer, Journal of
//      Computational Physics 90, 1990).
//
// Where another order of the operations promises to lack less memory (orders.h), the plans for step 2 are
// shared among the recorded order and it, the one that leads furthest goes on, and on its way the order
// itself is changed where an operation waits (reordering.h). Where none promises anything, plans are those of
// the recorded order, draw by draw.
//
// What it cannot say: transfers of a part of a tensor. Updates in place run where the order has them.
// Work is bounded by the number of simulated plans. Anytime, deterministic for a seed, pure.
//
// Last, the plan's contents are given addresses; where they do not fit tier 0, the step is planned for less
// of it (addresses/fitting.h). So the answer is never worse than any published policy's plan whose addresses
// fit; where no plan's do, than any at all.
#pragma once

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner::joint {

// What the plan of a step is worth: the second step's time, as `terrace plan` reports it; infinite where it
// cannot be carried out.
double planned_step_us(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan);

// Begins with `control.from`, if that is given and can be carried out, and then takes a share of the time
// that is little more than `control.effort`. Refused where no policy has a plan that can be carried out, with
// the reason of the last one.
Result<SwapPlan> plan_jointly(const wire::Trace& trace, const Machine& machine, const SwapControl& control);

}  // namespace terrace::planner::joint
