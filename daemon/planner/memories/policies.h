// The planners for two memories, each in a file of its own; policies() is the table.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "daemon/planner/memories/residence.h"

namespace terrace::planner::memories {

// How a search is steered. There is no clock: work is bounded by counts.
struct Control {
  std::uint64_t seed = 0;
  double effort = 1;  // times as many plans as a policy tries by itself
};

struct Planned {
  Plan plan;
  double total_us = 0;  // as simulate() has it
  // Below which no plan of the kind that the policy looks for can be; 0: the policy knows none.
  double bound_us = 0;
};

// Everything stays where it came to be: what a first touch does, fast until that is full.
Planned plan_first_touch(const Step& step, const Control& control = {});
// AutoTM's integer programme over places alone, and over places and moves (autotm_static.cpp,
// autotm_moves.cpp).
Planned plan_autotm_static(const Step& step, const Control& control = {});
Planned plan_autotm_moves(const Step& step, const Control& control = {});
// Sentinel with all its parts (sentinel.cpp), and with its intervals alone.
Planned plan_sentinel(const Step& step, const Control& control = {});
Planned plan_sentinel_interval(const Step& step, const Control& control = {});
// The search that starts from the best of all of them (search.cpp): never slower than any.
Planned plan_search(const Step& step, const Control& control = {});
// The same from a plan that is known to be best so far.
Planned search_from(const Step& step, const Control& control, Planned best);

struct Policy {
  const char* name;
  const char* source;
  Planned (*plan)(const Step&, const Control&);
};

// In the order of the table of `terrace bench policies --only memories`; the last one is ours.
const std::vector<Policy>& policies();

// What no plan can beat in a step that begins as it ends (gap_programme.h).
double least_step_us(const Step& step);

}  // namespace terrace::planner::memories
