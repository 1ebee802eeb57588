// Stays in tier 0 around a step that repeats, as buffers of one step.
//
// What lies there as the step ends and as it begins is one stay that goes on across the end: on a circle of
// the step's changes it is an arc, and needs one address.
//
//     step    |----------------------------|     cut at c    c---------------------------|
//     arc     |xxxxx                    xxx|                       xxxxxxxx
//     arc     |xxxxxxxxxxxxxxxxxxxxxxxxxxxx|                 xxxxxxxxxxxxxxxxxxxxxxxxxxxxx
//
// The circle is cut open where the fewest bytes lie that do not lie there all the time. Where that is none, a
// placement of the open circle is exactly one of the circle. An arc that the cut meets counts as there all
// the time, which is correct, and may cost room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner::addresses {

struct Arcs {
  Instance instance;
  std::vector<std::uint32_t> buffer_of;  // per stay of the report; two stays may be of one buffer
};

// The step alone: one buffer for each stay, whose most live bytes are the peak of tier 0. O(n).
Arcs once(const SimulationReport& report);

// The step that repeats; nothing where what lies there as it ends is not what lay there as it began.
// O(n log n).
std::optional<Arcs> repeated(const SimulationReport& report);

}  // namespace terrace::planner::addresses
