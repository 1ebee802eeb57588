// What a step takes on two memories under a plan: event-driven, and for any plan.
//
// Operations run one after the other; each takes what step.h says of the places in which it finds what it
// names. Moves run beside them, one at a time per direction, in the order in which they were asked for.
//
// Rules:
// * A tensor comes to be in the memory that the plan says. Without room in the fast one it comes to be in the
//   slow one, and stays there until the plan moves it: no plan fails.
// * Operations go first: while one reads the slow memory for a share of its time, moves out of the slow
//   memory have the rest; likewise writes, and moves into it. Between operations moves have all of it.
// * A move in takes room at its start; until there is some it waits, and those behind it, too. A move out
//   frees room at its end. What the running operation names is freed when that has ended.
// * While a tensor moves it is read where it was. An operation that writes it waits for the move's end; a
// move
//   that has not begun does not begin while an operation writes the tensor.
// * Moving in leaves a copy in the slow memory; until the tensor is written, moving it out again takes no
//   time. Whoever dies ends its moves.
// * A move back that is asked for while the opposite one still waits in its queue calls that one off.
// * `wait` holds the computation up until no move of the tensor is asked for or under way, or until those
// that
//   are cannot begin. The moves' engine is the computation's equal: what is copied costs it no time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/planner/memories/step.h"

namespace terrace::planner::memories {

enum class Move : std::uint8_t { in, out, wait };

struct Entry {
  std::uint32_t position = 0;  // before this operation
  std::uint32_t tensor = 0;
  Move move = Move::in;
};

struct Plan {
  std::vector<bool> born_fast;  // per tensor of the step; of a persistent one: before the first step
  std::vector<Entry> entries;   // by position
};

struct OpRun {
  double ready_us = 0, start_us = 0, end_us = 0;
};

struct Transfer {
  std::uint32_t tensor = 0;
  bool in = false;
  bool ended = true;  // false: the tensor died, or the last step ended, meanwhile
  double start_us = 0, end_us = 0;
};

// In the fast memory, from the moment on that room is taken to the one in which it is free again.
struct Stay {
  std::uint32_t tensor = 0;
  double begin_us = 0, end_us = 0;
  std::uint32_t begin_run = 0, end_run = 0;  // operations of all steps that had ended by then
};

struct Report {
  double total_us = 0;                 // of the last step
  double access_us = 0;                // in it: what operations took beyond their times in the fast memory
  double wait_us = 0;                  // in it
  double in_bytes = 0, out_bytes = 0;  // in it, of moves that ended
  std::uint64_t fast_peak_bytes = 0;
  // Of the last step, per operation: time lost there, by slow accesses and by waiting.
  std::vector<double> lost_us;
  // Of all steps, if asked for; time 0 is the first one's begin.
  std::vector<OpRun> runs;
  std::vector<Transfer> transfers;  // by their starts
  std::vector<Stay> stays;
};

struct Options {
  std::uint32_t steps = 2;  // the last one is reported, starting from the state that the one before left
  bool timeline = false;
};

Report simulate(const Step& step, const Plan& plan, const Options& options = {});

// What is wrong with a report that has a timeline, empty if nothing. Independent of simulate(): it looks at
// the timeline alone, and checks that the fast memory holds what lies in it at each instant, that every
// content was where it was read, that operations and moves took what they must, and that totals are the
// timeline's.
std::string check(const Step& step, const Report& report);

}  // namespace terrace::planner::memories
