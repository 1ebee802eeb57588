#include "daemon/planner/running_statistics.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace terrace::planner {
namespace {

constexpr std::uint64_t times_as_large = 16;  // as what is updated beside: even 4 x 4 points of one image are

bool has(const std::vector<std::uint32_t>& list, std::uint32_t tensor) {
  return std::find(list.begin(), list.end(), tensor) != list.end();
}

// "BatchNorm2d_Forward", "aten::native_batch_norm", "FusedBatchNormV3".
bool is_batch_norm(const std::string& name) {
  std::string letters;
  for (const unsigned char c : name)
    if (std::isalpha(c) != 0) letters += static_cast<char>(std::tolower(c));
  return letters.find("batchnorm") != std::string::npos;
}

// What the operation writes whole.
std::uint64_t made_bytes(const wire::Trace& trace, const wire::TraceOp& op) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t t : op.outputs)
    if (!has(op.inputs, t)) bytes += trace.tensors[t].bytes;
  return bytes;
}

}  // namespace

bool leaves_alone(const wire::Trace& trace, const wire::TraceOp& op, std::uint32_t tensor) {
  return trace.tensors[tensor].running_statistics && has(op.inputs, tensor) && has(op.outputs, tensor);
}

std::vector<bool> likely_running_statistics(const wire::Trace& trace) {
  std::vector<bool> likely(trace.tensors.size(), false), ruled_out(trace.tensors.size(), false);
  for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
    const wire::TraceTensor& tensor = trace.tensors[t];
    ruled_out[t] = !tensor.persistent || tensor.kind == wire::TensorKind::weight ||
                   tensor.kind == wire::TensorKind::optimizer;
  }
  for (const wire::TraceOp& op : trace.ops) {
    const bool normalises = is_batch_norm(op.name);
    const std::uint64_t made = normalises ? made_bytes(trace, op) : 0;
    for (const std::uint32_t t : op.outputs) {
      const bool beside = normalises && has(op.inputs, t) && trace.tensors[t].bytes <= made / times_as_large;
      (beside ? likely : ruled_out)[t] = true;
    }
  }
  for (std::size_t t = 0; t < likely.size(); ++t) likely[t] = likely[t] && !ruled_out[t];
  return likely;
}

}  // namespace terrace::planner
