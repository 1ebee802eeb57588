// Whether what a plan keeps in tier 0 can be given addresses.
//
// The simulator counts bytes: what it keeps in tier 0 never exceeds the tier's capacity. A content needs its
// bytes in a row, and while it stays it cannot move, so that more may be needed than the most bytes at once.
// Here every stay of a simulated step (SimulationReport::stays) becomes a buffer of daemon/planner/reuse, our
// own portfolio places the buffers, and check_placement() and check_addresses() look at the answer.
//
// A step repeats. At best all that lies in tier 0 from one step to the next has one address, so that every
// step has the same (arcs.h). Where no such placement fits, the step is placed by itself: that is right for a
// runtime that gives a tensor an address each time it comes, but what lies there across the step's end would
// have to have another address in the next step.
//
// Pure and deterministic: the work is bounded by steps, not by time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

struct Addresses {
  std::vector<std::uint64_t> offsets;  // one for each of the report's stays, in tier 0
  std::uint64_t needed_bytes = 0;      // the highest end
  std::uint64_t peak_bytes = 0;        // the most bytes at once: no addresses need less
  bool fit = false;                    // needed_bytes are at most tier 0's capacity
  bool repeat = false;                 // all that lies there across the step's end keeps its address
};

// Addresses that fit tier 0 where any are found, those that repeat first; otherwise the lowest that were
// found, with `repeat` false. Of a report with a timeline. Refused: stays that no policy can place (their
// bytes together exceed 2^61), or a placement that the judges find wrong.
Result<Addresses> addresses_of(const Machine& machine, const SimulationReport& report);

// The same of a plan's repeated step; refused also where that cannot be carried out.
Result<Addresses> addresses_of(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan);

// What is wrong with addresses, empty if nothing: two stays that overlap in address and time, one beyond
// `needed_bytes`, a peak that is not the report's, or where they are to repeat another address at the end
// than at the begin. O(n log n), shares no code with what makes them but the instance of a step alone.
std::string check_addresses(const SimulationReport& report, const Addresses& addresses);

// The step alone as an instance: one buffer for each stay, in their order; times are the numbers of changes.
Instance instance_of(const SimulationReport& report);

}  // namespace terrace::planner
