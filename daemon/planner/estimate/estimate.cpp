#include "daemon/planner/estimate/estimate.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace terrace::planner {
namespace {

using wire::TensorKind;

std::uint64_t padding(std::uint64_t bytes, BlockRounding rounding) {
  const std::uint64_t rest = rounding.multiple == 0 ? 0 : bytes % rounding.multiple;
  return rest == 0 ? 0 : rounding.multiple - rest;
}

class Sweep {
 public:
  Sweep(const wire::Trace& trace, BlockRounding rounding);
  MemoryEstimate run();

 private:
  void add(TensorKind kind, std::uint64_t bytes);
  void remove(TensorKind kind, std::uint64_t bytes);
  void begin(std::uint32_t tensor) { add(trace_.tensors[tensor].kind, trace_.tensors[tensor].bytes); }
  void end(std::uint32_t tensor) { remove(trace_.tensors[tensor].kind, trace_.tensors[tensor].bytes); }
  void look(std::uint32_t op);

  const wire::Trace& trace_;
  BlockRounding rounding_;
  std::vector<std::vector<std::uint32_t>> begins_, ends_;  // tensors by operation; ends after it
  MemoryByClass live_;
  MemoryEstimate result_;
};

Sweep::Sweep(const wire::Trace& trace, BlockRounding rounding)
    : trace_(trace), rounding_(rounding), begins_(trace.ops.size()), ends_(trace.ops.size()) {
  constexpr std::uint32_t never = ~std::uint32_t{0};
  std::vector<std::uint32_t> last(trace.tensors.size(), never);
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs}) {
      for (const std::uint32_t t : *list) {
        if (last[t] == never && !trace.tensors[t].persistent) begins_[op].push_back(t);
        last[t] = op;
      }
    }
  }
  for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
    if (last[t] != never && !trace.tensors[t].persistent) ends_[last[t]].push_back(t);
  }
}

void Sweep::add(TensorKind kind, std::uint64_t bytes) {
  live_.kind_bytes.at(static_cast<std::size_t>(kind)) += bytes;
  live_.rounding_bytes += padding(bytes, rounding_);
}

void Sweep::remove(TensorKind kind, std::uint64_t bytes) {
  live_.kind_bytes.at(static_cast<std::size_t>(kind)) -= bytes;
  live_.rounding_bytes -= padding(bytes, rounding_);
}

void Sweep::look(std::uint32_t op) {
  for (std::size_t kind = 0; kind < live_.kind_bytes.size(); ++kind) {
    result_.largest.kind_bytes[kind] = std::max(result_.largest.kind_bytes[kind], live_.kind_bytes[kind]);
  }
  result_.largest.rounding_bytes = std::max(result_.largest.rounding_bytes, live_.rounding_bytes);
  if (live_.total_bytes() <= result_.at_peak.total_bytes()) return;
  result_.at_peak = live_;
  result_.peak_op = op;
}

MemoryEstimate Sweep::run() {
  for (std::uint32_t t = 0; t < trace_.tensors.size(); ++t) {
    if (trace_.tensors[t].persistent) begin(t);
  }
  result_.persistent_bytes = live_.total_bytes() - live_.rounding_bytes;
  look(0);
  for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) {
    for (const std::uint32_t t : begins_[op]) begin(t);
    add(TensorKind::workspace, trace_.ops[op].workspace_bytes);
    look(op);
    remove(TensorKind::workspace, trace_.ops[op].workspace_bytes);
    for (const std::uint32_t t : ends_[op]) end(t);
  }
  return result_;
}

}  // namespace

std::uint64_t MemoryByClass::total_bytes() const {
  return std::accumulate(kind_bytes.begin(), kind_bytes.end(), rounding_bytes);
}

MemoryEstimate estimate_memory(const wire::Trace& trace, BlockRounding rounding) {
  return Sweep(trace, rounding).run();
}

}  // namespace terrace::planner
