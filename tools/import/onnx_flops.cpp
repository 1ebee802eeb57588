#include "tools/import/onnx_flops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "tools/import/onnx_shapes.h"

namespace terrace::import {
namespace {

struct Type {
  const char* name;
  double bytes;
};

// By TensorProto::DataType.
constexpr std::array<Type, 17> types = {{{"", 0},
                                         {"float32", 4},
                                         {"uint8", 1},
                                         {"int8", 1},
                                         {"uint16", 2},
                                         {"int16", 2},
                                         {"int32", 4},
                                         {"int64", 8},
                                         {"", 0},
                                         {"bool", 1},
                                         {"float16", 2},
                                         {"float64", 8},
                                         {"uint32", 4},
                                         {"uint64", 8},
                                         {"complex64", 8},
                                         {"complex128", 16},
                                         {"bfloat16", 2}}};

double side(const OnnxShape& shape, std::size_t i) {
  return i < shape.sides.size() ? static_cast<double>(shape.sides[i]) : 0;
}

double first_elements(const std::vector<OnnxShape>& shapes) {
  return shapes.empty() ? 0 : shapes[0].elements();
}

// Each output is a sum over one filter: the weight's elements divided by its output channels, its first side.
double convolution(const std::vector<OnnxShape>& in, double outputs) {
  if (in.size() < 2 || side(in[1], 0) == 0) return 0;
  return 2 * outputs * in[1].elements() / side(in[1], 0);
}

// Each input goes through one filter; the weight's first side are the input's channels.
double transposed_convolution(const std::vector<OnnxShape>& in) {
  return in.size() < 2 ? 0 : convolution(in, in[0].elements());
}

double matrix_product(const onnx::NodeProto& node, const std::vector<OnnxShape>& in, double outputs) {
  if (in.empty() || in[0].sides.empty()) return 0;
  const onnx::AttributeProto* transposed = onnx_attribute(node, "transA");
  const bool first = transposed != nullptr && transposed->i() != 0;
  return 2 * outputs * (first ? side(in[0], 0) : side(in[0], in[0].sides.size() - 1));
}

double pooling(const onnx::NodeProto& node, double outputs) {
  double window = 1;
  if (const onnx::AttributeProto* kernel = onnx_attribute(node, "kernel_shape"); kernel != nullptr) {
    for (const std::int64_t s : kernel->ints()) window *= static_cast<double>(s);
  }
  return outputs * std::max(window, 1.0);
}

// LSTM, GRU, RNN: X is [time, batch, features]; W and R multiply every one of its vectors.
double recurrent(const std::vector<OnnxShape>& in) {
  if (in.size() < 3) return 0;
  return 2 * side(in[0], 0) * side(in[0], 1) * (in[1].elements() + in[2].elements());
}

double per_element(const std::string& type) {
  static const std::unordered_map<std::string, double> operations = {{"Softmax", 5},
                                                                     {"LogSoftmax", 5},
                                                                     {"BatchNormalization", 4},
                                                                     {"LayerNormalization", 8},
                                                                     {"Sigmoid", 4},
                                                                     {"Tanh", 4},
                                                                     {"Gelu", 8},
                                                                     {"InstanceNormalization", 8},
                                                                     {"LRN", 8},
                                                                     {"Erf", 8},
                                                                     {"Exp", 4},
                                                                     {"Log", 4},
                                                                     {"Transpose", 0},
                                                                     {"Concat", 0},
                                                                     {"Slice", 0},
                                                                     {"Split", 0},
                                                                     {"Gather", 0},
                                                                     {"Cast", 0},
                                                                     {"Pad", 0},
                                                                     {"Expand", 0}};
  const auto found = operations.find(type);
  return found == operations.end() ? 1 : found->second;
}

double flops(const onnx::NodeProto& node, const std::vector<OnnxShape>& in,
             const std::vector<OnnxShape>& out) {
  const std::string& type = node.op_type();
  const double outputs = first_elements(out);
  if (type == "Conv" || type == "ConvInteger" || type == "QLinearConv") return convolution(in, outputs);
  if (type == "ConvTranspose") return transposed_convolution(in);
  if (type == "MatMul" || type == "Gemm" || type == "MatMulInteger") return matrix_product(node, in, outputs);
  if (type == "MaxPool" || type == "AveragePool" || type == "LpPool") return pooling(node, outputs);
  if (type == "LSTM" || type == "GRU" || type == "RNN") return recurrent(in);
  const bool reduces = type.starts_with("Reduce") || type.starts_with("Global");
  return per_element(type) * (reduces ? first_elements(in) : outputs);
}

}  // namespace

double OnnxShape::elements() const {
  double product = known ? 1 : 0;
  for (const std::int64_t s : sides) product *= static_cast<double>(s);
  return std::isnan(product) ? 0 : product;  // infinity times an empty side
}

OnnxShape typed(int data_type) {
  const bool known = data_type > 0 && data_type < static_cast<int>(types.size());
  const Type& type = types.at(known ? static_cast<std::size_t>(data_type) : 0);
  return {false, type.bytes, type.name, {}};
}

OnnxCosts onnx_costs(const onnx::NodeProto& node, const std::vector<OnnxShape>& in,
                     const std::vector<OnnxShape>& out) {
  OnnxCosts costs{flops(node, in, out), 0};
  for (const OnnxShape& shape : in) costs.bytes += shape.elements() * shape.element_bytes;
  for (const OnnxShape& shape : out) costs.bytes += shape.elements() * shape.element_bytes;
  return costs;
}

}  // namespace terrace::import
