// A period that a job told (liballoc/wire/period/period.h), as a step for the planner; and the planner's
// entries for that step, as a schedule of the period.
//
// Operation k of the step is an interval. What the planner may move is a tensor, which an operation names
// where its interval touches the object. What it may not move is memory that the operation takes beside
// them, its workspace:
//
//   event     b        u1           u2        d
//   object    alloc────touch────────touch─────free
//   tensor    output   input        input┊
//   workspace                            ┊────     no use before the death: it is not taken out
//
// * An allocation is a use, since what is new is written.
// * Behind its last use an object is in DRAM until it is freed. To take it out would write dead data, and to
//   fetch it for its death would read them. So no plan has such an entry, and needs no filter for it.
// * An object of which no use is known is in use all its life. What persists and has none makes the fastest
//   tier smaller (always_bytes).
// * The step begins where the fewest bytes are alive that are freed before they are allocated again
//   (gradients that the next step frees), and not at ordinal 0: a tensor that is not persistent cannot live
//   over a step's end. What lives over the best end, too, is in use all its life.
#pragma once

#include <cstdint>
#include <vector>

#include "liballoc/wire/period/image.h"
#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::daemon {

struct PeriodStep {
  wire::Trace trace;                          // a tensor's id is the object's index in the period
  std::vector<wire::ScheduleObject> objects;  // as the trace's tensors, by the job's names
  std::uint32_t begin = 0;                    // the event that operation 0 follows
  std::uint64_t period_hash = 0;
  std::uint64_t always_bytes = 0;
};

// O(events + objects + uses).
PeriodStep step_of(const wire::PeriodView& period);

// The schedule is of the step, with deadlines; now it is of the period, its clock, its hash and its objects.
void turn_into_period(const PeriodStep& step, wire::Schedule* schedule);

}  // namespace terrace::daemon
