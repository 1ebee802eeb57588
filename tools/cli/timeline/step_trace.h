// One step of a job that runs, as the planner's trace, from a recording. Pure.
//
//   steps seen whole ─► the sequence that most of them have ─► one interval between each two events of it
//                                                                │ split where something was touched
//                                                                ▼
//                                                            operations, with the median of their times
//
// Known for certain: which blocks come and go, in which order, how large they are, and how long that takes
// with what was waited taken out. Known in part: what is touched when. A touch of what is in DRAM leaves no
// event, so that all like steps are looked at together: what one of them was seen to touch at a place of the
// step, every one of them touches there. An object that was in DRAM all the time has only its birth and its
// death, and a plan may take it for idle in between: what is planned from here is a lower bound
// as far as touches go.
#pragma once

#include <cstdint>

#include "liballoc/wire/result.h"
#include "liballoc/wire/trace.h"
#include "tools/cli/timeline/history.h"

namespace terrace::cli {

struct StepTrace {
  wire::Trace trace;  // within the planner's limits; `reads_known` is false, and no operation recomputable
  std::uint64_t session = 0;
  std::uint64_t kind = 0;   // of step
  std::uint64_t whole = 0;  // steps of that kind that were seen whole and without gaps
  std::uint64_t like = 0;   // of these, that have the sequence that the trace is made of
  // Of these, on the average: from begin to begin, with all that was waited.
  double mean_us = 0;
  double mean_waited_us = 0;
  std::uint64_t budget_bytes = 0;  // the job's at that time; 0: not known
  double moved_bytes = 0;          // read and written in a step, the job's on the average of the recording
};

// Of the process and kind of step that most time went into. Refuses, saying what to do, where fewer than two
// whole steps of a kind have the same sequence. `history` is that of `recording`.
Result<StepTrace> step_trace_of(const Recording& recording, const History& history);

}  // namespace terrace::cli
