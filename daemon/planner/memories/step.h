// A training step on two memories, the slower of which operations can use in place.
//
// What an operation takes. The trace's time is that with everything in the fast memory. Every tensor is read
// or written once, by bytes / bandwidth + latency of the memory that it lies in, one after the other, while
// the operation computes. So an operation takes
//
//     max(its time in the trace, sum of its accesses' times)
//
// but never less than in the trace: where the trace is faster than the fast memory's bandwidth (its caches
// were), what slow accesses take beyond fast ones is added. This is the roofline model (Williams et al.,
// CACM 2009) with a roof per memory; AutoTM (ASPLOS'20, section 4) measures the same function by running each
// kernel with each combination of its arguments' places.
//
// Workspaces are tensors of one operation that are written and read once. Pure; times are microseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/machine.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner::memories {

// One operation names one tensor; once each, however often the trace lists it.
struct Use {
  std::uint32_t op = 0, tensor = 0;
  bool reads = false, writes = false;
  double extra_us = 0;  // beyond its time in the fast memory, if the tensor lies in the slow one
  double slow_read_us = 0, slow_write_us = 0;  // the slow memory's time, latency left out
};

struct Operation {
  double time_us = 0;               // with everything in the fast memory
  double hidden_us = 0;             // so much more of accesses would still hide behind it
  std::vector<std::uint32_t> uses;  // indices into Step::uses
  // With accesses that take `extra_us` more than in the fast memory.
  double takes_us(double extra_us) const {
    return time_us + (extra_us > hidden_us ? extra_us - hidden_us : 0);
  }
};

struct Tensor {
  std::uint64_t bytes = 0;
  std::uint32_t first = 0, last = 0;  // operations, both included; a persistent one lives always
  bool persistent = false;
  std::vector<std::uint32_t> uses;  // in order of operations; none: no operation names it
};

struct Step {
  std::vector<Operation> ops;
  std::vector<Tensor> tensors;  // those of the trace by index, then one for each workspace
  std::vector<Use> uses;
  std::uint64_t fast_bytes = 0;
  // Of moves, bytes per microsecond: the least of the link and both memories. What an operation reads or
  // writes of the slow memory meanwhile is taken off (simulate.h).
  double in_rate = 0, out_rate = 0;
  double in_latency_us = 0, out_latency_us = 0;
  double compute_us = 0;  // of all operations, everything fast

  // The most that lives at once. With this much of fast memory nothing need ever be slow.
  std::uint64_t peak_bytes() const;
  // Bytes that live at each operation.
  std::vector<std::uint64_t> live_bytes() const;
};

// Tiers 0 and 1 of the machine are the two memories. Refused: a machine with fewer, whose tier 1 cannot be
// used in place, has no route, or does not hold all that lives at once.
Result<Step> step_on(const wire::Trace& trace, const Machine& machine);

}  // namespace terrace::planner::memories
