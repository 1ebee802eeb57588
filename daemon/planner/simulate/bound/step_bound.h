// What no schedule can beat: how long a step takes at least, by a linear programme over fluids.
//
// The programme. Instants are ends of some operations (lives.h). Between two of them lies a window: as long
// as the computing in it, or longer. Contents that rest between two operations that need them are fluids: at
// each instant some of each lies in tier 0. Minimise the sum of the windows, such that
//   (1) at each instant what the ending operation names, its workspace, and what rests fit into tier 0;
//   (2) of what rests, no more is outside tier 0 than has been copied out since it was written; one copy
//   serves
//       all gaps up to the next write, and what is older than the step counts as copied;
//   (3) what rests less at an instant than at the next one, or before it is read, has come in between;
//   (4) over each link and direction no more moves in a window than its bandwidth times the window's length.
//
// Why it is a bound. Take any schedule that simulate() carries out, under either stall rule, and read off at
// each instant what memory of tier 0 each content holds, and in each window what was moved. Windows are at
// least as long as their computing: operations run one after the other, also where one overlaps its stall.
// (1) holds because an operation's tensors and workspace lie in tier 0 when it ends, and what else must exist
// either does, too, or lies outside. (2) holds because memory of tier 0 becomes free only when all of the
// content has left (or it was copied and not written since), a transfer out of what is being written begins
// only after the write, and contents are forgotten only where nothing reads them. (3) holds because memory of
// tier 0 is taken before a transfer in begins, which ends before the operation does. (4) holds because
// transfers share links by rate. So these numbers satisfy the programme, and its least value is not above the
// step's time. It asks for less than the simulator does: tensors move whole and in queues there, with
// latency, an operation's inputs come before it starts, and between instants memory has limits, too. Leaving
// out instants and small contents only takes conditions away, which keeps it a bound: that is how long steps
// are made short enough to solve.
//
// Codecs count as free, and let every byte on a link shrink to the least share that any of them makes of any
// tensor. Where a tier lies inside tier 0, what rests is in tier 0 in either form, and takes at least the
// share that any codec makes of that tensor (one bit a value, where an operation needs no more; such an
// operation then needs no more in tier 0, either); moves between the two forms count as free. What moves
// between far tiers moves for nothing here, too: it takes of links what the programme then gives to others.
// What near tiers cannot hold is left to the older bound of bounds.cpp; the larger of both is returned.
// `recomputes` lets every content be made again instead of moved, at no less than its operation's time over
// the bytes that this makes; without it the bound holds for schedules without recomputations only. `repeats`:
// the step begins as it ends, so what was written late in one step leaves in the next. A single simulated
// step may begin better than it ends; then only the mean over a cycle of steps obeys this bound.
//
// The value is computed from the solver's multipliers alone (linear.h): whatever the solver does, what is
// returned is a bound. Pure: no clock, no output; the number of iterations is limited.
#pragma once

#include <cstdint>

#include "daemon/planner/machine.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

struct StepBoundOptions {
  bool recomputes = false;
  bool repeats = false;
  std::uint32_t most_instants = 0;  // 0: 128, or 64 with one of the above, whose programmes are harder
  std::uint32_t most_columns = 100'000;
  std::uint32_t most_iterations = 100'000;
};

struct StepBound {
  double step_us = 0;    // infinite: an operation does not fit into tier 0, or there is no room for the rest
  bool finished = true;  // false: the solver was stopped; the bound holds, but a better one may exist
};

// The trace and the machine must be such that simulate() accepts them.
StepBound step_bound(const wire::Trace& trace, const Machine& machine, const StepBoundOptions& options = {});

}  // namespace terrace::planner
