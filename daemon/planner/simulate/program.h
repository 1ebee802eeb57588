// A trace and a schedule together: which runs there are, and which entry or operation each of them is.
//
// A run is an operation or a recomputation. What comes when is the executor's to say. Runs are numbered in
// order; a tensor's uses are run numbers, so "named again last" and "dead after" count recomputations, too.
// All lists lie flat, one after the other, with an array of begins.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "daemon/planner/machine.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

inline constexpr std::uint32_t no_run = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t no_codec = std::numeric_limits<std::uint32_t>::max();

// Operations that make one content again, the one that wrote the tensor whole and updates in place since.
inline constexpr std::size_t most_updates_again = 32;

struct Named {
  std::uint32_t tensor = 0;
  bool reads = false;
  bool writes = false;
  bool values = false;  // reads more than signs (one_bit.h)
};

struct Run {
  std::uint32_t op = 0;
  std::uint32_t position = 0;  // of the schedule
  bool again = false;          // a recomputation
  double time_us = 0;
  std::uint64_t extra_bytes = 0;  // workspace, and outputs of a recomputation that nobody keeps
  std::vector<std::uint64_t> unkept_bytes = {};  // of each such output
};

struct Program {
  std::vector<Run> runs;
  std::vector<std::uint32_t> op_run;        // per operation: its run
  std::vector<std::uint32_t> entry_run;     // per entry: the recomputation that it is the first of, or no_run
  std::vector<std::uint32_t> entry_runs;    // per entry: how many from there on; several where updates in
                                            // place are made again after what they updated
  std::vector<Named> named;                 // of all runs
  std::vector<std::uint32_t> named_begin;   // runs.size() + 1
  std::vector<std::uint32_t> uses;          // runs that name a tensor, of all tensors
  std::vector<std::uint32_t> uses_begin;    // tensors.size() + 1
  std::vector<std::uint32_t> entry_codec;   // per entry: index into Machine::codecs, or no_codec
  std::vector<std::uint64_t> entry_stored;  // per entry: bytes that an eviction moves
  std::vector<std::uint32_t> route_of_tier;   // per tier; no_run: none
  std::vector<wire::ScheduleObject> objects;  // the tensors, to the executor
  std::uint32_t routes = 0;

  std::span<const Named> names_of(std::uint32_t run) const {
    return {named.data() + named_begin[run], named_begin[run + 1] - named_begin[run]};
  }
  std::span<const std::uint32_t> uses_of(std::uint32_t tensor) const {
    return {uses.data() + uses_begin[tensor], uses_begin[tensor + 1] - uses_begin[tensor]};
  }
};

// Bytes that a tensor takes after a codec; all of its own after one for which its type is not known or wrong.
std::uint64_t stored_bytes(const wire::TraceTensor& tensor, const CodecCost& codec);

// What is wrong with a machine or a trace's references, empty if nothing: parsed ones are right already,
// those built in memory may not be.
std::string check_machine(const Machine& machine);
std::string check_trace(const wire::Trace& trace);
// Positions, tensors, tiers, codecs; the message names the entry.
std::string check_entries(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule);

// The inputs must have passed the checks above. Refused: recomputations that would give something else, and
// what needs values of which one bit each is left.
Result<Program> make_program(const wire::Trace& trace, const Machine& machine,
                             const wire::Schedule& schedule);

}  // namespace terrace::planner
