// How much an ONNX operator computes and moves.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::import {

struct OnnxShape {
  bool known = false;
  double element_bytes = 0;
  std::string dtype;
  std::vector<std::int64_t> sides;
  [[nodiscard]] double elements() const;  // 0 if not known
};

// The type alone, by TensorProto::DataType; element_bytes is 0 for text and what is not known.
OnnxShape typed(int data_type);

struct OnnxCosts {
  double flops = 0;  // a multiplication with addition counts as two
  double bytes = 0;  // read and written once
};

// Shapes stand in the order of the node's inputs and outputs. Convolutions, matrix products and recurrent
// layers by their formulas, poolings by their windows, normalisations and softmax as a few operations an
// element, everything else as one an element of what it gives.
OnnxCosts onnx_costs(const onnx::NodeProto& node, const std::vector<OnnxShape>& in,
                     const std::vector<OnnxShape>& out);

}  // namespace terrace::import
