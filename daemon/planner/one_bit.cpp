#include "daemon/planner/one_bit.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace terrace::planner {
namespace {

// As PyTorch names them. What has one byte a value would gain little, and its single value nothing.
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 4> floating_types = {
    {{"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8}}};

bool holds(const std::vector<std::uint32_t>& list, std::uint32_t tensor) {
  return std::find(list.begin(), list.end(), tensor) != list.end();
}

std::uint64_t in_parts(std::uint64_t whole, std::uint64_t part) { return whole / part + (whole % part != 0); }

}  // namespace

bool reads_sign_only(const wire::TraceOp& op, std::uint32_t tensor) { return holds(op.sign_only, tensor); }

std::string wrong_sign_only(const wire::Trace& trace, const wire::TraceOp& op) {
  const std::vector<std::uint32_t>& list = op.sign_only;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = "sign_only[" + std::to_string(i) + "]: ";
    if (list[i] >= trace.tensors.size())
      return place + "tensor " + std::to_string(list[i]) + " does not exist";
    const std::string which = "tensor " + std::to_string(trace.tensors[list[i]].id);
    if (!holds(op.inputs, list[i])) return place + which + " is no input of the operation; name inputs alone";
    if (holds(op.outputs, list[i])) return place + which + " is an output, too; leave it out here";
    if (std::count(list.begin(), list.end(), list[i]) > 1)
      return place + which + " stands twice; name it once";
  }
  return {};
}

std::uint64_t one_bit_bytes(const wire::TraceTensor& tensor) {
  for (const auto& [name, bytes] : floating_types)
    if (tensor.dtype == name) return in_parts(in_parts(tensor.bytes, bytes), 8);
  return 0;
}

std::vector<std::uint32_t> values_needed_until(const wire::Trace& trace) {
  const auto ops = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<std::uint32_t> until(trace.tensors.size(), 0);
  for (std::uint32_t op = 0; op < ops; ++op) {
    for (const std::uint32_t t : trace.ops[op].inputs)
      if (!reads_sign_only(trace.ops[op], t)) until[t] = op + 1;
    for (const std::uint32_t t : trace.ops[op].outputs) until[t] = op + 1;
  }
  for (std::size_t t = 0; t < until.size(); ++t)
    if (trace.tensors[t].persistent) until[t] = ops;
  return until;
}

}  // namespace terrace::planner
