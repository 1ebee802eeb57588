// Topological orders of a trace: the same operations in another sequence that respects every dependency.
//
// The order decides which tensors are alive together, and with it what any placement can reach. Breadth-first
// and reverse depth-first are what frameworks run in; memory_minimising() is ours: several constructions,
// from both ends of the graph, then a beam search, then exact reordering of the windows around the peak. The
// problem is NP-hard (register sufficiency), so it promises only that it is never worse than the order given.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/order/dependencies.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

using Order = std::vector<std::uint32_t>;  // operation indices of the trace, each once

// Kahn's algorithm with a FIFO queue; what becomes ready together keeps the recorded order.
Order breadth_first(const wire::Trace& trace);

// Depth-first along the successors from each source in recorded order, operations in reverse of the order in
// which they are left (the reverse post-order, as Checkmate's bridge to DTR uses).
Order reverse_depth_first(const wire::Trace& trace);

// The recorded order, but what leaves less memory behind than it found runs as soon as all that it waits for
// has run: an optimizer's update where its gradient is there, the last consumer of anything large. O((V + E)
// log V) but for tensors that many operations name.
Order frees_early(const wire::Trace& trace);

// How much memory_minimising() may look at. The work is bounded by counts, not time, so that the answer is
// the same everywhere.
struct OrderEffort {
  std::uint32_t beam_width = 32;            // states kept per step
  std::uint64_t beam_work = 1'000'000'000;  // counters copied in all (a state has one per operation and
                                            // tensor); where that is short, fewer states are kept, or none
  std::uint32_t window_ops = 12;            // reordered exactly together, at most 16
  std::uint32_t window_rounds = 400;        // windows looked at
};
Order memory_minimising(const wire::Trace& trace, const OrderEffort& effort = {});

// Every operation once, and none before one that it waits for.
bool is_topological(const Dependencies& graph, const Order& order);

// The most bytes alive at one time if the operations run in this order, persistent tensors included: what
// max_live_bytes() says of the reordered trace's instance.
std::uint64_t peak_bytes(const wire::Trace& trace, const Order& order);

// The trace with its operations in that order; tensors keep their indices.
wire::Trace reorder(const wire::Trace& trace, const Order& order);

}  // namespace terrace::planner
