// The portfolio by itself, without the other policies: all that a plan of moves needs to be given addresses.
//
// The instance is cut into parts that do not concern each other (skyline/cut.h). Every part gets a first
// placement in O(n log n); from then on only the part that ends highest matters, and gets one move after the
// other (part_plan.h) until it reaches the bound, is no longer the highest, or the work is used up. The
// answer only gets better, and is complete at any time.
#pragma once

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::portfolio {

// Of an instance that refusal() lets pass. Pure, deterministic for the control's seed and steps as long as
// its `stop` says no.
Placement place(const Instance& instance, const SearchControl& control);

}  // namespace terrace::planner::portfolio
