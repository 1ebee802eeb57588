// The best plans that only recompute, as choices to begin from.
//
// The search over runs (recompute/search/) knows no link and makes a new content of each update in place, so
// what it finds need not be possible here: what the simulator cannot run again stays, and memory may be short
// then. It is asked for several budgets, the machine's and larger ones: what a larger one lacks here is left
// to the link (Drafts::complete). Each of these searches has a begin that no effort shortens, so a joint
// search with less effort has fewer of them, and none below a fifth.
#pragma once

#include <vector>

#include "daemon/planner/simulate/joint/drafts.h"

namespace terrace::planner::joint {

// For the smallest budget first; none where the trace does not tell what operations read, or has too many.
std::vector<Choices> remade_alone(const Drafts& drafts, const SwapControl& control);

}  // namespace terrace::planner::joint
