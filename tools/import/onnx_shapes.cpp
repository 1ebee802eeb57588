#include "tools/import/onnx_shapes.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace terrace::import {
namespace {

using Sides = std::vector<std::int64_t>;
constexpr std::int64_t largest_attribute = std::int64_t{1} << 31;

// What a rule may look at; every input that it uses has been checked to be known.
struct Case {
  const onnx::NodeProto& node;
  const std::vector<OnnxShape>& in;
  const ConstantsOf& constants;

  [[nodiscard]] std::int64_t number(const char* name, std::int64_t absent) const {
    const onnx::AttributeProto* a = onnx_attribute(node, name);
    return a == nullptr ? absent : a->i();
  }
  // One number for each spatial side; empty if the list does not fit or a number is out of range.
  [[nodiscard]] Sides numbers(const char* name, std::size_t count, std::int64_t absent,
                              std::int64_t least) const {
    const onnx::AttributeProto* a = onnx_attribute(node, name);
    if (a == nullptr || a->ints_size() == 0) return Sides(count, absent);
    Sides all(a->ints().begin(), a->ints().end());
    const bool fits = all.size() == count && std::all_of(all.begin(), all.end(), [least](std::int64_t n) {
                        return n >= least && n <= largest_attribute;
                      });
    return fits ? all : Sides();
  }
  [[nodiscard]] const Sides* constant(int input) const {
    return input < node.input_size() ? constants(node.input(input)) : nullptr;
  }
};

OnnxShape like(const OnnxShape& input, Sides sides) {
  OnnxShape shape = input;
  shape.known =
      std::all_of(sides.begin(), sides.end(), [](std::int64_t s) { return s >= 0 && s < largest_side; });
  shape.sides = shape.known ? std::move(sides) : Sides();
  return shape;
}

OnnxShape unknown_shape() { return {}; }

// A negative axis counts from the end. False: there is no such axis.
bool settle(std::int64_t* axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (*axis < -n || *axis >= n) return false;
  if (*axis < 0) *axis += n;
  return true;
}

OnnxShape same(const Case& c) { return c.in[0]; }

// Numpy's rule: aligned at the end, a side of 1 is stretched.
Sides broadcast(const Sides& a, const Sides& b) {
  Sides out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    out[out.size() - 1 - i] = x != y && x != 1 && y != 1 ? -1 : std::max(x, y);
  }
  return out;
}

OnnxShape elementwise(const Case& c) {
  Sides sides = c.in[0].sides;
  for (const OnnxShape& other : c.in) {
    if (!other.known) return unknown_shape();
    sides = broadcast(sides, other.sides);
  }
  return like(c.in[0], std::move(sides));
}

// Spatial sides of a convolution or a pooling; -1 where it does not fit.
Sides windows(const Case& c, const Sides& kernel) {
  const std::size_t n = kernel.size();
  const Sides strides = c.numbers("strides", n, 1, 1);
  const Sides dilations = c.numbers("dilations", n, 1, 1);
  const Sides pads = c.numbers("pads", 2 * n, 0, 0);
  if (strides.empty() || dilations.empty() || pads.empty()) return {-1};
  const onnx::AttributeProto* automatic = onnx_attribute(c.node, "auto_pad");
  const bool keeps = automatic != nullptr && automatic->s().starts_with("SAME");
  const bool rounds_up = c.number("ceil_mode", 0) != 0;
  Sides out;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t side = c.in[0].sides[i + 2];
    if (kernel[i] < 1 || kernel[i] > largest_attribute / dilations[i]) return {-1};
    const std::int64_t room = side + pads[i] + pads[n + i] - (kernel[i] - 1) * dilations[i] - 1;
    const std::int64_t extra = rounds_up ? strides[i] - 1 : 0;
    if (keeps) {
      out.push_back((side + strides[i] - 1) / strides[i]);
    } else {
      out.push_back(room < 0 ? -1 : (room + extra) / strides[i] + 1);
    }
  }
  return out;
}

OnnxShape with_windows(const Case& c, std::int64_t channels, const Sides& kernel) {
  Sides sides = {c.in[0].sides[0], channels};
  const Sides spatial = windows(c, kernel);
  sides.insert(sides.end(), spatial.begin(), spatial.end());
  return like(c.in[0], std::move(sides));
}

OnnxShape convolution(const Case& c) {
  const std::size_t rank = c.in[0].sides.size();
  if (c.in.size() < 2 || !c.in[1].known || rank < 3 || c.in[1].sides.size() != rank) return unknown_shape();
  return with_windows(c, c.in[1].sides[0], Sides(c.in[1].sides.begin() + 2, c.in[1].sides.end()));
}

OnnxShape pooling(const Case& c) {
  const std::size_t rank = c.in[0].sides.size();
  if (rank < 3 || onnx_attribute(c.node, "kernel_shape") == nullptr) return unknown_shape();
  const Sides kernel = c.numbers("kernel_shape", rank - 2, 1, 1);
  return kernel.empty() ? unknown_shape() : with_windows(c, c.in[0].sides[1], kernel);
}

OnnxShape global_pooling(const Case& c) {
  if (c.in[0].sides.size() < 3) return unknown_shape();
  Sides sides(c.in[0].sides.size(), 1);
  std::copy_n(c.in[0].sides.begin(), 2, sides.begin());
  return like(c.in[0], std::move(sides));
}

OnnxShape gemm(const Case& c) {
  if (c.in.size() < 2 || !c.in[1].known || c.in[0].sides.size() != 2 || c.in[1].sides.size() != 2)
    return unknown_shape();
  const std::size_t row = c.number("transA", 0) != 0 ? 1 : 0;
  const std::size_t column = c.number("transB", 0) != 0 ? 0 : 1;
  return like(c.in[0], {c.in[0].sides[row], c.in[1].sides[column]});
}

OnnxShape matmul(const Case& c) {
  if (c.in.size() < 2 || !c.in[1].known) return unknown_shape();
  const Sides& a = c.in[0].sides;
  const Sides& b = c.in[1].sides;
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) return unknown_shape();
  Sides sides = broadcast(Sides(a.begin(), a.end() - 2), Sides(b.begin(), b.end() - 2));
  sides.insert(sides.end(), {a[a.size() - 2], b.back()});
  return like(c.in[0], std::move(sides));
}

// Products of sides may overflow whole numbers; doubles beyond largest_side are refused by like().
std::int64_t product(Sides::const_iterator begin, Sides::const_iterator end) {
  double all = 1;
  for (; begin != end; ++begin) all *= static_cast<double>(*begin);
  return all >= 0 && all < static_cast<double>(largest_side) ? static_cast<std::int64_t>(all) : -1;
}

OnnxShape flatten(const Case& c) {
  const Sides& sides = c.in[0].sides;
  std::int64_t axis = c.number("axis", 1);
  if (axis != static_cast<std::int64_t>(sides.size()) && !settle(&axis, sides.size())) return unknown_shape();
  const auto middle = sides.begin() + axis;
  return like(c.in[0], {product(sides.begin(), middle), product(middle, sides.end())});
}

// 0 keeps a side, -1 takes what is left.
OnnxShape reshape(const Case& c) {
  const Sides* wanted = c.constant(1);
  if (wanted == nullptr) return unknown_shape();
  Sides sides = *wanted;
  std::size_t open = sides.size();
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (sides[i] == 0 && i < c.in[0].sides.size()) sides[i] = c.in[0].sides[i];
    if (sides[i] == -1) open = i;
  }
  if (open < sides.size()) {
    sides[open] = 1;
    const std::int64_t others = product(sides.begin(), sides.end());
    const std::int64_t all = product(c.in[0].sides.begin(), c.in[0].sides.end());
    if (others <= 0 || all < 0) return unknown_shape();
    sides[open] = all / others;
  }
  return like(c.in[0], std::move(sides));
}

OnnxShape transpose(const Case& c) {
  Sides sides(c.in[0].sides.rbegin(), c.in[0].sides.rend());
  if (onnx_attribute(c.node, "perm") != nullptr) {
    const Sides order = c.numbers("perm", sides.size(), 0, 0);
    if (order.size() != sides.size()) return unknown_shape();
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i] >= static_cast<std::int64_t>(sides.size())) return unknown_shape();
      sides[i] = c.in[0].sides[static_cast<std::size_t>(order[i])];
    }
  }
  return like(c.in[0], std::move(sides));
}

OnnxShape concatenation(const Case& c) {
  Sides sides = c.in[0].sides;
  std::int64_t axis = c.number("axis", 0);
  if (!settle(&axis, sides.size())) return unknown_shape();
  const auto along = static_cast<std::size_t>(axis);
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    if (!c.in[i].known || c.in[i].sides.size() != sides.size()) return unknown_shape();
    sides[along] = std::min(sides[along] + c.in[i].sides[along], largest_side);
  }
  return like(c.in[0], std::move(sides));
}

// Rows of a table: the index's shape in the place of the axis.
OnnxShape gather(const Case& c) {
  std::int64_t axis = c.number("axis", 0);
  if (c.in.size() < 2 || !c.in[1].known || !settle(&axis, c.in[0].sides.size())) return unknown_shape();
  const Sides& table = c.in[0].sides;
  Sides sides(table.begin(), table.begin() + axis);
  sides.insert(sides.end(), c.in[1].sides.begin(), c.in[1].sides.end());
  sides.insert(sides.end(), table.begin() + axis + 1, table.end());
  return like(c.in[0], std::move(sides));
}

using Rule = OnnxShape (*)(const Case&);

Rule rule_of(const std::string& type) {
  static const std::unordered_map<std::string, Rule> rules = {{"Conv", convolution},
                                                              {"MaxPool", pooling},
                                                              {"AveragePool", pooling},
                                                              {"LpPool", pooling},
                                                              {"GlobalAveragePool", global_pooling},
                                                              {"GlobalMaxPool", global_pooling},
                                                              {"Gemm", gemm},
                                                              {"MatMul", matmul},
                                                              {"Flatten", flatten},
                                                              {"Reshape", reshape},
                                                              {"Transpose", transpose},
                                                              {"Concat", concatenation},
                                                              {"Gather", gather},
                                                              {"Add", elementwise},
                                                              {"Sub", elementwise},
                                                              {"Mul", elementwise},
                                                              {"Div", elementwise},
                                                              {"Pow", elementwise},
                                                              {"Min", elementwise},
                                                              {"Max", elementwise},
                                                              {"Sum", elementwise},
                                                              {"PRelu", same}};
  static const std::unordered_map<std::string, Rule> unary = {{"Relu", same},
                                                              {"LeakyRelu", same},
                                                              {"Elu", same},
                                                              {"Selu", same},
                                                              {"Clip", same},
                                                              {"Sigmoid", same},
                                                              {"HardSigmoid", same},
                                                              {"HardSwish", same},
                                                              {"Tanh", same},
                                                              {"Erf", same},
                                                              {"Exp", same},
                                                              {"Log", same},
                                                              {"Sqrt", same},
                                                              {"Neg", same},
                                                              {"Abs", same},
                                                              {"Softmax", same},
                                                              {"LogSoftmax", same},
                                                              {"Dropout", same},
                                                              {"Identity", same},
                                                              {"LRN", same},
                                                              {"BatchNormalization", same},
                                                              {"InstanceNormalization", same},
                                                              {"LayerNormalization", same},
                                                              {"Gelu", same},
                                                              {"Softplus", same}};
  for (const auto* table : {&rules, &unary}) {
    if (const auto found = table->find(type); found != table->end()) return found->second;
  }
  return nullptr;
}

}  // namespace

const onnx::AttributeProto* onnx_attribute(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

OnnxShape infer_shape(const onnx::NodeProto& node, const std::vector<OnnxShape>& in,
                      const ConstantsOf& constants) {
  const Rule rule = rule_of(node.op_type());
  if (rule == nullptr || in.empty() || !in[0].known) return unknown_shape();
  return rule({node, in, constants});
}

}  // namespace terrace::import
