// Shapes of what ONNX's operators give.
//
// Our own inference for the operators that networks are made of: the library's reads beyond its buffers when
// a model's ranks do not fit together (found by tests/fuzz/trace_fuzz.cpp in onnx 1.12,
// convPoolShapeInference), and files come from anywhere. What is not known here is taken from the shapes that
// the exporter wrote.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/import/onnx_flops.h"

namespace terrace::import {

inline constexpr std::int64_t largest_side = std::int64_t{1} << 40;

const onnx::AttributeProto* onnx_attribute(const onnx::NodeProto& node, const char* name);

// The whole numbers of a small constant tensor; nullptr if `name` is none. For the shapes that Reshape gets.
using ConstantsOf = std::function<const std::vector<std::int64_t>*(const std::string& name)>;

// Of the first output; `known` is false where this cannot tell. The other outputs of the operators that occur
// (masks, indices, statistics) have no rule here.
OnnxShape infer_shape(const onnx::NodeProto& node, const std::vector<OnnxShape>& in,
                      const ConstantsOf& constants);

}  // namespace terrace::import
