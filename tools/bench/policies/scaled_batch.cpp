#include "tools/bench/policies/scaled_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace terrace::bench {
namespace {

using wire::TensorKind;
using wire::Trace;
using wire::TraceOp;
using wire::TraceTensor;

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t statistics_share = 16;  // at most one part in so many of what they are statistics of

bool contains(const std::vector<std::uint32_t>& tensors, std::uint32_t tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

std::vector<std::uint32_t> named_by(const TraceOp& op) {
  std::vector<std::uint32_t> named = op.inputs;
  named.insert(named.end(), op.outputs.begin(), op.outputs.end());
  return named;
}

// Of each tensor whether it scales.
class Scaling {
 public:
  explicit Scaling(const Trace& trace) : trace_(trace), scales_(trace.tensors.size()) {
    for (std::uint32_t t = 0; t < scales_.size(); ++t) scales_[t] = !is_parameter(t);
    for (const TraceOp& op : trace.ops) find_broadcast(op);
    for (const TraceOp& op : trace.ops) find_updates(op);
    for (const TraceOp& op : trace.ops) find_statistics(op);
  }

  bool operator[](std::uint32_t tensor) const { return scales_[tensor]; }
  bool of(const TraceOp& op) const {
    const auto scales = [&](std::uint32_t t) { return scales_[t]; };
    return std::any_of(op.inputs.begin(), op.inputs.end(), scales) ||
           std::any_of(op.outputs.begin(), op.outputs.end(), scales);
  }

 private:
  bool is_parameter(std::uint32_t t) const {
    const TraceTensor& tensor = trace_.tensors[t];
    return tensor.persistent || tensor.kind == TensorKind::weight || tensor.kind == TensorKind::optimizer;
  }
  std::uint64_t bytes(std::uint32_t t) const { return trace_.tensors[t].bytes; }
  std::uint64_t largest_of(const std::vector<std::uint32_t>& tensors) const {
    std::uint64_t largest = 0;
    for (const std::uint32_t t : tensors) largest = std::max(largest, bytes(t));
    return largest;
  }

  // Parameters that have the shape of the activations beside them. A matrix may have as many bytes as what it
  // is multiplied with, or as the product, by chance; then the other of the two is much larger.
  void find_broadcast(const TraceOp& op) {
    const std::vector<std::uint32_t> named = named_by(op);
    const std::uint64_t largest = largest_of(named);
    for (const std::uint32_t p : op.inputs) {
      if (!is_parameter(p) || contains(op.outputs, p) || bytes(p) <= largest / 2) continue;
      const auto like = [&](std::uint32_t t) { return !is_parameter(t) && bytes(t) == bytes(p); };
      if (std::any_of(named.begin(), named.end(), like)) scales_[p] = true;
    }
  }

  // The gradients by which parameters that stay are updated.
  void find_updates(const TraceOp& op) {
    for (const std::uint32_t p : op.outputs) {
      if (!is_parameter(p) || scales_[p] || !contains(op.inputs, p)) continue;
      for (const std::uint32_t t : op.inputs)
        if (trace_.tensors[t].kind == TensorKind::gradient && bytes(t) == bytes(p)) scales_[t] = false;
    }
  }

  // What has a parameter's size beside much larger tensors.
  void find_statistics(const TraceOp& op) {
    const std::vector<std::uint32_t> named = named_by(op);
    const std::uint64_t largest = largest_of(named);
    for (const std::uint32_t t : named) {
      if (bytes(t) > largest / statistics_share) continue;
      const auto like = [&](std::uint32_t p) {
        return is_parameter(p) && !scales_[p] && bytes(p) == bytes(t);
      };
      if (std::any_of(named.begin(), named.end(), like)) scales_[t] = false;
    }
  }

  const Trace& trace_;
  std::vector<bool> scales_;
};

std::uint64_t scaled(std::uint64_t bytes, double factor) {
  const auto exact = static_cast<std::uint64_t>(std::ceil(static_cast<double>(bytes) * factor));
  if (bytes % page_bytes != 0) return exact;
  return (exact + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

Trace with_scaled_batch(Trace trace, double factor) {
  const Scaling scales(trace);
  for (TraceOp& op : trace.ops) {
    if (!scales.of(op)) continue;
    op.time_us *= factor;
    op.workspace_bytes = scaled(op.workspace_bytes, factor);
    if (op.flops) *op.flops *= factor;
    for (wire::OpVariant& variant : op.variants) {
      variant.time_us *= factor;
      variant.workspace_bytes = scaled(variant.workspace_bytes, factor);
    }
  }
  for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
    TraceTensor& tensor = trace.tensors[t];
    if (!scales[t]) continue;
    tensor.bytes = scaled(tensor.bytes, factor);
    tensor.shape.clear();  // which of its dimensions is the batch is not known
  }
  trace.name += fmt::format(" x {}", factor);
  return trace;
}

}  // namespace terrace::bench
