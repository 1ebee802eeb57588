// What moves when: the answer of a swap policy to a trace and a machine.
//
// An entry takes effect just before operation `position` starts, entries of one position in their order;
// position ops.size() is the end of the step. Transfers queue behind earlier ones of the same route; an
// operation waits for what it names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::wire {

enum class Action : std::uint8_t {
  evict,  // copy to `tier`; the memory is free once the copy has ended, at once where a valid one lies there
  prefetch,   // bring back to the compute tier; its memory is taken when the transfer begins
  drop,       // forget the content: dead, or to be computed again
  recompute,  // run the operation that made it once more
  wait,       // hold the computation up until the tensor is on no way
};

struct ScheduleEntry {
  std::uint32_t position = 0;
  std::uint32_t tensor = 0;  // index into Trace::tensors
  Action action = Action::evict;
  std::uint32_t tier = 0;  // index into Machine::tiers: target of an eviction, source of a prefetch
  std::string codec;       // empty: as it is
};

struct Schedule {
  std::string trace;
  std::string policy;
  std::vector<ScheduleEntry> entries;  // sorted by position
};

}  // namespace terrace::wire
