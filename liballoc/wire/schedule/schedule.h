// What moves when in a step that repeats: schedule version 2, the answer of a policy to a trace and a
// machine.
//
//     ordinal   0    1    2    3    4    5   = period         the clock counts events of the program;
//     object 7  x    .    .    .    .    x                    an entry begins at `at` or later and is
//                    at ── out ──▶                            done by `by`
//                              at ── in ──▶ by
//
// The clock says what an ordinal counts: the program's large allocations and frees, the operations of a
// trace, or the tensors that a framework saves. `at` stands just before event `at`; the period's length is
// its end. A deadline may lie in the next period (out before this period's end, in after the next one's
// begin): it then counts on, up to `at` + period, where the entry comes again. Entries stand in the order of
// `at`; those of one ordinal happen in their order. Objects that no entry names, and everything after the
// program has left the sequence, are the reactive policy's.
//
// The same entries stand in memory, in the sealed image that a job reads in place (image.h), and are what
// executor.h carries out. Plain types without behaviour; JSON form: docs/formats/schedule.md.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace terrace::wire {

enum class Clock : std::uint32_t { allocations, operations, saves, count };

enum class Action : std::uint32_t {
  out,   // copy to `tier`; the memory is free once the copy has ended, at once where a valid one lies there
  in,    // bring back to the fastest tier; its memory is taken when the transfer begins
  drop,  // forget the content: dead, or to be made again
  redo,  // run the operation that made it once more
  wait,  // hold the program up until nothing of the object is on its way
  // What rests in a far tier, or is on its way there, moves on to `tier`, another far one. Of traces alone:
  // images carry none.
  stage,
  count
};

// Who of those that wait for one direction of a link moves first.
enum class Order : std::uint32_t {
  asked,     // who asked first, as on a stream of CUDA: what the published systems do
  deadline,  // the earliest deadline; of equal ones who asked first
  count
};

inline constexpr std::uint32_t persistent = std::numeric_limits<std::uint32_t>::max();   // as a birth
inline constexpr std::uint32_t no_deadline = std::numeric_limits<std::uint32_t>::max();  // later than any
inline constexpr std::uint64_t whole_object = std::numeric_limits<std::uint64_t>::max();

// What the job knows an object by is (birth, place); `id` is the trace's name for it, for people.
struct ScheduleObject {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  std::uint32_t birth = persistent;  // ordinal of the event that makes it; or it is there in every period
  std::uint32_t place = 0;           // among those of the same birth
};
static_assert(sizeof(ScheduleObject) == 24);

struct ScheduleEntry {
  std::uint32_t at = 0;
  std::uint32_t object = 0;  // index into Schedule::objects, and so into Trace::tensors
  Action action = Action::out;
  std::uint32_t tier = 0;          // index into Machine::tiers: target of `out` and `stage`, source of `in`
  std::uint32_t codec = 0;         // 0: as it is; else 1 + index into Machine::codecs
  std::uint32_t by = no_deadline;  // at ≤ by ≤ at + period once a policy has given it
  std::uint64_t begin = 0;         // the object's bytes from here on …
  std::uint64_t bytes = whole_object;  // … so many; all that are left
};
static_assert(sizeof(ScheduleEntry) == 40);

// An operation of a trace that runs in another variant than its own. What a job runs is its own affair:
// images carry none.
struct VariantChoice {
  std::uint32_t op = 0;
  std::uint32_t variant = 0;  // 1 + index into TraceOp::variants
};

// What the simulator says of the schedule. Zero step time: nobody has simulated it.
struct Prediction {
  double step_us = 0;
  double late_us = 0;                          // waits for transfers that were scheduled and under way
  double fetch_us = 0;                         // waits for transfers that nothing had scheduled
  double room_us = 0;                          // waits for memory of the fastest tier
  std::vector<std::uint64_t> tier_peak_bytes;  // as Machine::tiers
};

struct Schedule {
  std::string trace;
  std::string policy;
  std::vector<ScheduleEntry> entries;  // sorted by `at`
  Clock clock = Clock::operations;
  std::uint32_t period = 0;       // ordinals of a period; 0: not described yet
  std::uint64_t period_hash = 0;  // of what one period looks like
  Order out_order = Order::asked, in_order = Order::asked;
  std::vector<ScheduleObject> objects = {};
  Prediction predicted = {};
  std::vector<VariantChoice> variants = {};  // sorted by op, each once
  // The order in which the trace's operations run, each once: ordinals and births count its positions.
  // Empty: as in the trace. What a job runs is its own affair: images carry none.
  std::vector<std::uint32_t> operations = {};
  // Of the fastest tier's memory: stays free, since addresses need more than the bytes that lie there. Images
  // carry none: a job's memory is paged.
  std::uint64_t spare_bytes = 0;
};

constexpr bool moves(Action action) { return action == Action::out || action == Action::in; }

// Static texts, as in JSON and messages; "unknown" for what is none.
const char* name_of(Clock clock) noexcept;
const char* name_of(Action action) noexcept;
const char* name_of(Order order) noexcept;

}  // namespace terrace::wire
