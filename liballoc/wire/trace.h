// One training step as data: what the profiler writes, the planner reads, the simulator replays.
//
// Operations stand in execution order. A tensor lives from the first operation that names it to the last one,
// both included; a persistent one lives always. An operation that updates in place names the tensor among its
// inputs and its outputs. Plain types without behaviour: JSON form and its checks are in
// daemon/planner/trace_json.h, prose in docs/formats/trace.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace terrace::wire {

enum class TensorKind : std::uint8_t { weight, activation, gradient, input, optimizer, workspace, other };

struct TraceTensor {
  std::uint64_t id = 0;  // as the file says; everything in memory refers to tensors by their index
  std::uint64_t bytes = 0;
  TensorKind kind = TensorKind::other;
  bool persistent = false;
  std::optional<double> sparsity;  // share of elements that are zero, 0 to 1
  std::string dtype;               // "float32", "bfloat16", …; empty: not known
  std::vector<std::int64_t> shape;
  // An operation that updates it in place makes nothing else from what it held before, as batch normalisation
  // does with its running mean and variance: made again, the operation leaves it alone.
  bool running_statistics = false;
};

// Another way to run an operation that reads and writes the same: by another algorithm, or with its batch cut
// into parts that run one after the other.
struct OpVariant {
  std::string name;
  double time_us = 0;
  std::uint64_t workspace_bytes = 0;
};

struct TraceOp {
  std::string name;
  double time_us = 0;
  std::vector<std::uint32_t> inputs;   // indices into Trace::tensors
  std::vector<std::uint32_t> outputs;  // likewise
  std::uint64_t workspace_bytes = 0;   // lives during this operation only
  std::optional<double> flops;
  bool recomputable = true;  // false: random or with side effects, running it twice would change the result
  std::vector<OpVariant> variants = {};  // beside the one above
  // Inputs of which it needs no more than whether each value is above zero, as ReLU's backward pass of what
  // ReLU gave; or not even that, as max-pooling's of what it got. Each once, and none is an output.
  std::vector<std::uint32_t> sign_only = {};
};

struct Trace {
  std::string name;
  std::string source;
  std::vector<TraceOp> ops;
  std::vector<TraceTensor> tensors;
  // False: operations name what they make and what ends with them, not all that they read (a profiler's log
  // of allocations). Lives are right then; dependencies are not, so the order must stay.
  bool reads_known = true;
};

}  // namespace terrace::wire
