// A training step as recomputation sees it: operations, and the contents that they read and make.
//
// A storage is here one content of a tensor, from the write that makes it to the next one. An update in place
// reads the old content and makes a new one of the same size (copy on write, as simrd does: simrd/parse/
// parse.py of uwsampl/dtr-prototype@eff53cc), because an operation can only be run again while what it read
// is as it was:
//
//     trace    relu_ : inputs [7], outputs [7]        step    relu_ : reads 7, makes 7'
//
// A constant has no maker: weights, inputs, masks. It lies in memory from begin to end and is never evicted,
// also where an operation has made a newer content of it. A kept storage must be there when the step has
// ended: the last content of a persistent tensor, and what nothing is made from (weights' gradients, the
// loss). What an operation makes that cannot be repeated is kept, too, since whatever depends on it may have
// to be made again. Everything else may go after the last operation that reads it, and may be made again.
//
// What simrd's logs have and a trace has not, and what follows:
//   * counts of references. Here a storage is released after its last reader, there when the program lets go
//     of it, which is never earlier. So less is held here: nothing worth mentioning for convolutional
//     networks, a quarter of the peak for the recurrent ones.
//   * which storages are referred to at the end. "Nothing is made from it" finds the same ones but for a few
//     (data/dtr/README.md counts them); operations that make nothing (views) do not count as making.
//   * names of views. There a view is made again at its own cost before what reads it; here it is an
//     operation that reads a storage and makes nothing, run once. Views are below 1% of a step's time, 3% of
//     TreeLSTM's.
//   * results of 0 bytes, which a rule that ignores size could evict there. Leaving them out of simrd's own
//     input changed none of five results.
//   * where a constant first appears. Here all of them are there from the begin.
// The order of reads matters, too: in it what is missing comes back, and of equal candidates for eviction the
// last one to be unlocked goes. A trace whose inputs are sorted gives other results where many are equal.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "liballoc/wire/result.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner::recompute {

inline constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();

struct Operation {
  std::int64_t cost_ns = 0;          // whole numbers: equal costs must stay equal when they are summed
  std::vector<std::uint32_t> reads;  // storages, each once, in the order of the trace
  std::vector<std::uint32_t> makes;  // none: a view, or an operation whose results have no bytes
  std::uint64_t made_bytes = 0;      // of all that it makes
  std::uint64_t workspace_bytes = 0;
  bool repeatable = true;
};

struct Storage {
  std::uint64_t bytes = 0;
  std::uint32_t maker = nothing;       // an operation; nothing: a constant
  std::vector<std::uint32_t> readers;  // operations in order
  bool kept = false;                   // must exist at the end

  [[nodiscard]] bool constant() const { return maker == nothing; }
};

struct Step {
  std::vector<Operation> operations;  // in the order of their first run
  std::vector<Storage> storages;
  std::int64_t cost_ns = 0;  // every operation once
  std::uint64_t constant_bytes = 0;
  std::uint32_t backward_begins = nothing;  // an operation; nothing: not known, or no backward pass
};

// Puts a step together in the order of its operations; numbers of storages count up from 0.
class StepBuilder {
 public:
  std::uint32_t add_constant(std::uint64_t bytes);
  // Answers the number of the operation. What it reads must exist; doubles are dropped.
  std::uint32_t add_operation(std::int64_t cost_ns, const std::vector<std::uint32_t>& reads);
  // A further result of the operation that was added last; answers the storage.
  std::uint32_t add_result(std::uint64_t bytes);
  void set_workspace(std::uint64_t bytes) { step_.operations.back().workspace_bytes = bytes; }
  void set_unrepeatable() { step_.operations.back().repeatable = false; }
  // With the operation that was added last.
  void begin_backward() { step_.backward_begins = static_cast<std::uint32_t>(step_.operations.size() - 1); }
  void keep(std::uint32_t storage) { step_.storages[storage].kept = true; }
  // Also keeps what cannot be made again and, with `keeps_unread`, what no operation that makes anything
  // reads.
  Step finish(bool keeps_unread = true);

 private:
  Step step_;
};

// Refused where the trace does not know what operations read. Times are rounded to nanoseconds. The backward
// pass begins with the first operation that makes a gradient. Whoever calls gets what nothing is made from,
// the loss and gradients; without `keeps_unread` it dies, as in a step of the simulator of moves.
Result<Step> step_of(const wire::Trace& trace, bool keeps_unread = true);

// Checkmate's form: each node makes one storage of its number, and an edge says that its second node reads
// what the first one made. Nodes are in an order in which edges lead forward.
struct NodeGraph {
  std::vector<std::int64_t> cost_ns;
  std::vector<std::uint64_t> bytes;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::uint32_t backward_begins = nothing;  // a node
};
// Refused where lengths differ, or an edge leads backward or nowhere.
Result<Step> step_of(const NodeGraph& graph);

// The most that lies in memory when nothing is recomputed and what is not kept goes with its last reader.
std::uint64_t peak_bytes_of(const Step& step);

// What no schedule can do without: constants, and either the reads, results and workspace of the operation
// that needs most, or all that is kept.
std::uint64_t least_bytes_of(const Step& step);

}  // namespace terrace::planner::recompute
