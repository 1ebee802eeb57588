// What the searches over runs find, as choices to begin from.
//
// The search over runs (recompute/search/) makes a new content of each update in place, so what it finds need
// not be possible here: what the simulator cannot run again stays, and memory may be short then. Alone it
// knows no link. Where there is one, it runs for the machine's memory and for more. What more memory lacks
// here is left to Belady's rule (Drafts::complete), which also moves what the next step needs. And the search
// beside the nearest tier's link goes on from where there was not much more, in the machine's memory. Each
// search has a begin that no effort shortens, so a joint search with less effort has fewer of them, and none
// below a fifth.
#pragma once

#include <vector>

#include "daemon/planner/simulate/joint/drafts.h"

namespace terrace::planner::joint {

struct Start {
  Choices choices;
  std::vector<Tail> tails;
};

// None where the trace does not tell what operations read, or has too many.
std::vector<Start> starts_that_recompute(const Drafts& drafts, const SwapControl& control);

}  // namespace terrace::planner::joint
