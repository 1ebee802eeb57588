// Small traces; see small_trace.h.
#include "tests/planner/g10/small_trace.h"

#include <random>
#include <utility>

namespace terrace::planner::test {

wire::TraceTensor tensor_of_pages(std::uint64_t pages, bool persistent) {
  wire::TraceTensor tensor;
  tensor.bytes = pages * page;
  tensor.persistent = persistent;
  return tensor;
}

wire::TraceOp op_of_ticks(double ticks, std::vector<std::uint32_t> inputs,
                          std::vector<std::uint32_t> outputs) {
  wire::TraceOp op;
  op.name = "op";
  op.time_us = ticks * 15599 / 1200;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  return op;
}

G10Machine machine_of_pages(std::uint64_t gpu, std::uint64_t host) {
  G10Machine machine;
  machine.gpu_bytes = gpu * page;
  machine.host_bytes = host * page;
  return machine;
}

wire::Trace random_trace(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&random](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  wire::Trace trace;
  const std::uint32_t layers = 3 + below(12);
  trace.tensors.push_back(tensor_of_pages(1 + below(300)));
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    trace.tensors.push_back(tensor_of_pages(1 + below(200), true));  // 2 × layer + 1
    trace.tensors.push_back(tensor_of_pages(1 + below(400)));        // 2 × layer + 2
  }
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    trace.ops.push_back(op_of_ticks(0.3 + below(60), {2 * layer, 2 * layer + 1}, {2 * layer + 2}));
    if (below(3) == 0) trace.ops.back().workspace_bytes = page * (1 + below(100));
  }
  for (std::uint32_t layer = layers; layer-- > 0;) {
    trace.tensors.push_back(tensor_of_pages(1 + below(400)));
    const auto gradient = static_cast<std::uint32_t>(trace.tensors.size() - 1);
    trace.ops.push_back(op_of_ticks(0.3 + below(60), {2 * layer, 2 * layer + 1, 2 * layer + 2}, {gradient}));
    trace.ops.push_back(op_of_ticks(0.3 + below(3), {gradient, 2 * layer + 1}, {2 * layer + 1}));
  }
  return trace;
}

}  // namespace terrace::planner::test
