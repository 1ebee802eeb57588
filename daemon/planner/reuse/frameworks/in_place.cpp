#include "daemon/planner/reuse/frameworks/in_place.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace terrace::planner {
namespace {

// Sorted, for the binary search; unary and binary operators whose element i depends on elements i alone.
constexpr std::array<std::string_view, 62> elementwise_names{"abs",
                                                             "add",
                                                             "addcdiv",
                                                             "addcmul",
                                                             "ceil",
                                                             "celu",
                                                             "clamp",
                                                             "clamp_max",
                                                             "clamp_min",
                                                             "clip",
                                                             "cos",
                                                             "div",
                                                             "dropout",
                                                             "elu",
                                                             "elu_backward",
                                                             "erf",
                                                             "exp",
                                                             "expm1",
                                                             "floor",
                                                             "gelu",
                                                             "gelu_backward",
                                                             "hardsigmoid",
                                                             "hardswish",
                                                             "hardtanh",
                                                             "hardtanh_backward",
                                                             "leaky_relu",
                                                             "leaky_relu_backward",
                                                             "leakyrelu",
                                                             "log",
                                                             "log1p",
                                                             "maximum",
                                                             "minimum",
                                                             "mish",
                                                             "mul",
                                                             "native_dropout",
                                                             "neg",
                                                             "pow",
                                                             "reciprocal",
                                                             "relu",
                                                             "relu6",
                                                             "relu_backward",
                                                             "remainder",
                                                             "round",
                                                             "rsqrt",
                                                             "rsub",
                                                             "sigmoid",
                                                             "sigmoid_backward",
                                                             "sign",
                                                             "silu",
                                                             "silu_backward",
                                                             "sin",
                                                             "softplus",
                                                             "sqrt",
                                                             "square",
                                                             "sub",
                                                             "swish",
                                                             "tan",
                                                             "tanh",
                                                             "tanh_backward",
                                                             "threshold",
                                                             "threshold_backward",
                                                             "trunc"};
static_assert(std::is_sorted(elementwise_names.begin(), elementwise_names.end()));

bool is_elementwise_name(std::string_view part) {
  if (const std::size_t scope = part.rfind("::"); scope != part.npos) part.remove_prefix(scope + 2);
  while (!part.empty() && part.back() == '_') part.remove_suffix(1);
  std::string name(part);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::binary_search(elementwise_names.begin(), elementwise_names.end(), std::string_view(name));
}

bool is_number(std::string_view part) {
  return std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// What counting references needs to know of a tensor.
struct Tensor {
  std::uint32_t first = no_tensor;
  std::uint32_t last = 0;
  bool produced = false;         // the first operation that names it writes it and does not read it
  std::uint32_t last_reads = 0;  // how often the last operation reads it
  bool last_writes = false;
};

void name(Tensor& tensor, std::uint32_t op, bool writes) {
  if (tensor.first == no_tensor) {
    tensor.first = op;
    tensor.produced = writes;
  }
  if (tensor.last != op) {
    tensor.last_reads = 0;
    tensor.last_writes = false;
  }
  tensor.last = op;
  tensor.last_reads += writes ? 0 : 1;
  tensor.last_writes = tensor.last_writes || writes;
}

std::vector<Tensor> tensors_of(const wire::Trace& trace) {
  std::vector<Tensor> tensors(trace.tensors.size());
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const std::uint32_t t : trace.ops[op].inputs) name(tensors[t], op, false);
    for (const std::uint32_t t : trace.ops[op].outputs) name(tensors[t], op, true);
  }
  return tensors;
}

class Merger {
 public:
  explicit Merger(const wire::Trace& trace)
      : trace_(trace), tensors_(tensors_of(trace)), heir_of_(trace.tensors.size(), no_tensor) {}

  // Per tensor, the one whose memory it takes over; no_tensor for most.
  std::vector<std::uint32_t> run(const std::function<bool(const wire::TraceOp&)>& may_overwrite) {
    std::vector<std::uint32_t> over(trace_.tensors.size(), no_tensor);
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) {
      if (!may_overwrite(trace_.ops[op])) continue;
      for (const std::uint32_t input : trace_.ops[op].inputs) {
        const std::uint32_t output = find_output(op, input);
        if (output == no_tensor) continue;
        over[output] = input;
        heir_of_[output] = input;
      }
    }
    return over;
  }

 private:
  [[nodiscard]] bool dies(std::uint32_t op, std::uint32_t input) const {
    const Tensor& tensor = tensors_[input];
    return tensor.last == op && tensor.last_reads == 1 && !tensor.last_writes && tensor.produced &&
           !trace_.tensors[input].persistent && trace_.tensors[input].bytes > 0;
  }

  [[nodiscard]] bool alike(std::uint32_t input, std::uint32_t output) const {
    const wire::TraceTensor& a = trace_.tensors[input];
    const wire::TraceTensor& b = trace_.tensors[output];
    return a.bytes == b.bytes && (a.dtype.empty() || b.dtype.empty() || a.dtype == b.dtype);
  }

  [[nodiscard]] std::uint32_t find_output(std::uint32_t op, std::uint32_t input) const {
    if (!dies(op, input)) return no_tensor;
    for (const std::uint32_t output : trace_.ops[op].outputs) {
      const Tensor& tensor = tensors_[output];
      const bool fresh = tensor.first == op && tensor.produced && heir_of_[output] == no_tensor;
      if (fresh && !trace_.tensors[output].persistent && alike(input, output)) return output;
    }
    return no_tensor;
  }

  const wire::Trace& trace_;
  std::vector<Tensor> tensors_;
  std::vector<std::uint32_t> heir_of_;
};

}  // namespace

bool is_elementwise(const wire::TraceOp& op) {
  std::string_view rest = op.name;
  while (!rest.empty()) {  // the last part that is no number
    const std::size_t slash = rest.rfind('/');
    const std::string_view part = slash == rest.npos ? rest : rest.substr(slash + 1);
    if (!is_number(part)) return is_elementwise_name(part);
    rest = slash == rest.npos ? std::string_view{} : rest.substr(0, slash);
  }
  return false;
}

InPlace in_place_instance_of(const wire::Trace& trace, std::uint64_t alignment,
                             const std::function<bool(const wire::TraceOp&)>& may_overwrite) {
  const Instance plain = instance_of(trace, alignment);
  const std::vector<std::uint32_t> over = Merger(trace).run(may_overwrite);
  InPlace result{{plain.name, {}, nullptr}, std::vector<std::uint32_t>(trace.tensors.size(), no_tensor)};
  // Chains are followed in order of time: what is taken over begins before what takes it.
  std::vector<std::uint32_t> order(plain.buffers.size());
  for (std::uint32_t n = 0; n < order.size(); ++n) order[n] = n;
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return plain.buffers[a].lower < plain.buffers[b].lower; });
  for (const std::uint32_t n : order) {
    const Buffer& b = plain.buffers[n];
    const std::uint32_t input = b.tensor == no_tensor ? no_tensor : over[b.tensor];
    std::uint32_t buffer = input == no_tensor ? no_tensor : result.buffer_of[input];
    if (buffer == no_tensor) {
      buffer = static_cast<std::uint32_t>(result.instance.buffers.size());
      result.instance.buffers.push_back(b);
    }
    result.instance.buffers[buffer].upper = std::max(result.instance.buffers[buffer].upper, b.upper);
    if (b.tensor != no_tensor) result.buffer_of[b.tensor] = buffer;
  }
  return result;
}

}  // namespace terrace::planner
