#include "tools/bench/planner/step.h"

#include <cmath>
#include <random>
#include <utility>

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
  constexpr double traffic = 28.0 / 4, gpu_bytes_per_us = a100_memory / 1e6;
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

namespace {

// A step of layers of a convolution, a ReLU and perhaps a pooling, as it grows.
class ReluStep {
 public:
  ReluStep(std::uint32_t layers, std::uint64_t seed) : random_(seed) {
    trace_ = {"made up, with ReLU and pooling", "terrace bench planner", {}, {}};
    std::uint32_t input = made(bytes(1 << 20), TensorKind::input);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      layers_.push_back(forward(input, layer % 2 == 1));
      input = layers_.back().output();
    }
    std::uint32_t gradient = no_tensor;
    for (std::uint32_t layer = layers; layer-- > 0;) gradient = backward(layers_[layer], gradient);
  }

  Trace take() { return std::move(trace_); }

 private:
  static constexpr std::uint32_t no_tensor = 0xffffffffU;

  struct Layer {
    std::uint32_t input = 0, weight = 0, relu = 0;
    std::uint32_t pooled = no_tensor, places = no_tensor;  // places: which of four was the largest
    std::uint32_t output() const { return pooled == no_tensor ? relu : pooled; }
  };

  std::mt19937_64 random_;
  Trace trace_;
  std::vector<Layer> layers_;

  std::uint64_t bytes(double smallest) {
    const double draw = static_cast<double>(random_() >> 11) * 0x1p-53;
    return static_cast<std::uint64_t>(smallest * std::pow(100.0, draw)) / 256 * 256;
  }

  std::uint32_t made(std::uint64_t size, TensorKind kind) {
    const std::uint64_t id = trace_.tensors.size();
    trace_.tensors.push_back({id, size, kind, kind == TensorKind::weight, std::nullopt, "float32", {}});
    return static_cast<std::uint32_t>(id);
  }
  std::uint64_t size(std::uint32_t tensor) const { return trace_.tensors[tensor].bytes; }
  std::uint32_t gradient_of(std::uint32_t tensor) { return made(size(tensor), TensorKind::gradient); }

  void add(const char* name, double time_us, std::vector<std::uint32_t> inputs,
           std::vector<std::uint32_t> outputs, std::vector<std::uint32_t> signs = {}) {
    std::erase(inputs, no_tensor);
    TraceOp op{name, time_us, std::move(inputs), std::move(outputs), 0, std::nullopt, true};
    op.sign_only = std::move(signs);
    trace_.ops.push_back(std::move(op));
  }

  double convolution_us(std::uint64_t output_bytes) const { return 1e-5 * static_cast<double>(output_bytes); }
  double memory_us(std::uint64_t moved_bytes) const {
    return static_cast<double>(moved_bytes) / (a100_memory / 1e6);
  }

  Layer forward(std::uint32_t input, bool pools) {
    const std::uint64_t output_bytes = bytes(1 << 20);
    Layer layer{input, made(bytes(1 << 18), TensorKind::weight), 0};
    const std::uint32_t convolved = made(output_bytes, TensorKind::activation);
    add("convolution", convolution_us(output_bytes), {layer.weight, input}, {convolved});
    layer.relu = made(output_bytes, TensorKind::activation);
    trace_.tensors[layer.relu].sparsity = 0.5;
    add("relu", memory_us(2 * output_bytes), {convolved}, {layer.relu});
    if (!pools) return layer;
    layer.pooled = made(output_bytes / 4, TensorKind::activation);
    layer.places = made(output_bytes / 2, TensorKind::activation);
    trace_.tensors[layer.places].dtype = "int64";
    add("max_pool2d_with_indices", memory_us(output_bytes / 4 * 7), {layer.relu},
        {layer.pooled, layer.places});
    return layer;
  }

  // From the gradient of its output to that of its input.
  std::uint32_t backward(const Layer& layer, std::uint32_t gradient) {
    const std::uint64_t output_bytes = size(layer.relu);
    if (layer.pooled != no_tensor) {
      const std::uint32_t of_relu = gradient_of(layer.relu);
      add("max_pool2d_with_indices_backward", memory_us(output_bytes / 4 * 7),
          {gradient, layer.relu, layer.places}, {of_relu}, {layer.relu});
      gradient = of_relu;
    }
    const std::uint32_t of_convolved = gradient_of(layer.relu);
    add("threshold_backward", memory_us(3 * output_bytes), {gradient, layer.relu}, {of_convolved},
        {layer.relu});
    const std::uint32_t of_input = gradient_of(layer.input);
    add("convolution_backward", 2 * convolution_us(output_bytes), {of_convolved, layer.input, layer.weight},
        {of_input, gradient_of(layer.weight)});
    return of_input;
  }
};

}  // namespace

Trace training_step_with_relus(std::uint32_t layers, std::uint64_t seed) {
  return ReluStep(layers, seed).take();
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
