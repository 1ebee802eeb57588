#include "tools/bench/planner/step.h"

#include <cmath>
#include <random>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::bench {

using wire::TensorKind;
using wire::Trace;
using wire::TraceOp;

namespace {

// Per layer, in this order.
enum : std::uint32_t { weight, activation, activation_gradient, weight_gradient, per_layer };

std::uint32_t tensor(std::uint32_t layer, std::uint32_t which) { return layer * per_layer + which; }

void add_tensors(Trace* trace, std::mt19937_64& random) {
  const auto draw = [&random] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto bytes = [&draw](double smallest) {
    return static_cast<std::uint64_t>(smallest * std::pow(100.0, draw())) / 256 * 256;
  };
  const std::uint64_t w = bytes(1 << 18), a = bytes(1 << 20);
  const std::pair<std::uint64_t, TensorKind> kinds[per_layer] = {{w, TensorKind::weight},
                                                                 {a, TensorKind::activation},
                                                                 {a, TensorKind::gradient},
                                                                 {w, TensorKind::gradient}};
  for (const auto& [size, kind] : kinds)
    trace->tensors.push_back(
        {trace->tensors.size(), size, kind, kind == TensorKind::weight, std::nullopt, "float32", {}});
}

TraceOp forward(const Trace& trace, std::uint32_t layer) {
  TraceOp op{"forward",
             1e-5 * static_cast<double>(trace.tensors[tensor(layer, activation)].bytes),
             {tensor(layer, weight)},
             {tensor(layer, activation)},
             0,
             std::nullopt,
             true};
  if (layer > 0) op.inputs.push_back(tensor(layer - 1, activation));
  return op;
}

TraceOp backward(const Trace& trace, std::uint32_t layer, std::uint32_t layers) {
  TraceOp op{"backward",
             2e-5 * static_cast<double>(trace.tensors[tensor(layer, activation)].bytes),
             {tensor(layer, weight), tensor(layer, activation)},
             {tensor(layer, activation_gradient), tensor(layer, weight_gradient)},
             0,
             std::nullopt,
             true};
  if (layer + 1 < layers) op.inputs.push_back(tensor(layer + 1, activation_gradient));
  return op;
}

}  // namespace

Trace training_step(std::uint32_t layers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Trace trace{"made up", "terrace bench planner", {}, {}};
  for (std::uint32_t layer = 0; layer < layers; ++layer) add_tensors(&trace, random);
  for (std::uint32_t layer = 0; layer < layers; ++layer) trace.ops.push_back(forward(trace, layer));
  for (std::uint32_t layer = layers; layer-- > 0;) trace.ops.push_back(backward(trace, layer, layers));
  return trace;
}

Trace training_step_with_adam(std::uint32_t layers, std::uint64_t seed) {
  constexpr double traffic = 28.0 / 4, gpu_bytes_per_us = 1555e3;
  Trace trace = training_step(layers, seed);
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::uint64_t bytes = trace.tensors[tensor(layer, weight)].bytes;
    const auto state = static_cast<std::uint32_t>(trace.tensors.size());
    trace.tensors.push_back({state, 2 * bytes, TensorKind::optimizer, true, std::nullopt, "float32", {}});
    const std::uint32_t w = tensor(layer, weight);
    trace.ops.push_back({"adam",
                         static_cast<double>(bytes) * traffic / gpu_bytes_per_us,
                         {w, tensor(layer, weight_gradient), state},
                         {w, state},
                         0,
                         std::nullopt,
                         false});
  }
  return trace;
}

Trace training_step_with_variants(std::uint32_t layers, std::uint64_t seed) {
  Trace trace = training_step(layers, seed);
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    TraceOp& op = trace.ops[i];
    const std::uint32_t layer = i < layers ? i : 2 * layers - 1 - i;
    const std::uint64_t bytes = trace.tensors[tensor(layer, activation)].bytes;
    op.workspace_bytes = bytes / 2;
    op.variants = {{"fast", 0.75 * op.time_us, bytes},
                   {"parts 2", 1.15 * op.time_us, bytes / 4},
                   {"parts 4", 1.4 * op.time_us, bytes / 8}};
  }
  return trace;
}

planner::Machine machine_for(const Trace& trace, double share) {
  const auto peak = static_cast<double>(planner::max_live_bytes(planner::instance_of(trace).buffers));
  planner::Machine machine;
  machine.name = "made up";
  machine.tiers = {{"gpu", static_cast<std::uint64_t>(share * peak)},
                   {"dram", planner::unlimited_bytes},
                   {"ssd", planner::unlimited_bytes}};
  machine.links = {{"pcie", 15.754e9, 15.754e9, 5, 5}, {"ssd", 3.2e9, 3.2e9, 12, 16}};
  machine.routes = {{1, {0}}, {2, {0, 1}}};
  return machine;
}

}  // namespace terrace::bench
