// ONNX: a graph of operators with the weights' shapes, and the shapes between them by the library's
// inference.
//
// A graph has no times, so a roofline stands in: an operator takes as long as its floating-point operations
// or its bytes need, whichever is more. It describes a forward pass only. Dimensions that are left open (the
// batch) count as FlopModel::open_dimension. Operators that only see their input in another shape (Reshape,
// …) make no tensor of their own. Weights stored beside the file are fine: only their shapes are looked at.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "daemon/planner/json_stream.h"
#include "daemon/planner/trace_limits.h"
#include "tools/import/import.h"
#include "tools/import/onnx_flops.h"
#include "tools/import/onnx_memory.h"
#include "tools/import/onnx_shapes.h"

namespace terrace::import {

using planner::check_limits;
using planner::in_quotes;
using planner::json_place;
using planner::most_dimensions;
using planner::most_flops;
using planner::most_ops;
using planner::most_tensor_bytes;
using planner::most_time_us;
using planner::text_within;

namespace {

using wire::TensorKind;
constexpr std::int64_t most_constants = 64;   // whole numbers in a constant that is looked at: shapes
constexpr int most_values_of_node = 1 << 14;  // inputs or outputs: their shapes are gathered for each node

// Nothing if the file holds another number of them than it says.
std::optional<std::vector<std::int64_t>> whole_numbers(const onnx::TensorProto& tensor, std::size_t count) {
  const auto& list = tensor.int64_data();
  if (static_cast<std::size_t>(list.size()) == count) return std::vector(list.begin(), list.end());
  const std::string& raw = tensor.raw_data();
  if (!list.empty() || raw.size() != count * sizeof(std::int64_t)) return std::nullopt;
  std::vector<std::int64_t> all(count);
  std::memcpy(all.data(), raw.data(), raw.size());  // little-endian in the file, as here
  return all;
}

std::string too_many_sides(const std::string& name) {
  return "the value " + in_quotes(name) + " has over 32 dimensions";
}

// A window of a pooling can have any size in a hostile file.
double bounded(double value, double most) { return std::isnan(value) ? 0 : std::clamp(value, 0.0, most); }

class OnnxReader {
 public:
  explicit OnnxReader(const FlopModel& model) : costs_(model) {}
  Result<Imported> read(std::string_view bytes);

 private:
  std::string graph();
  std::string weights();
  std::string types();
  std::string declare(const onnx::ValueInfoProto& value, bool counts);
  void keep_constant(const std::string& name, const onnx::TensorProto& tensor);
  std::string infer(const onnx::NodeProto& node);
  std::string node(int index);
  std::string constant(const onnx::NodeProto& node);
  void outputs();
  void note();

  std::string new_tensor(const std::string& name, TensorKind kind, const OnnxShape& shape);
  std::string bind(const std::string& name, std::uint32_t tensor);
  std::string inputs(const onnx::NodeProto& node, int index, wire::TraceOp* op);
  OnnxShape shape_of(const std::string& name) const;
  OnnxCosts costs(const onnx::NodeProto& node) const;

  FlopModel costs_;
  onnx::ModelProto model_;
  std::unordered_map<std::string, OnnxShape> shapes_;                     // by the name of a value
  std::unordered_map<std::string, std::uint32_t> tensor_of_;              // likewise
  std::unordered_map<std::string, std::vector<std::int64_t>> constants_;  // small ones of whole numbers
  std::size_t closed_ = 0, unsized_ = 0, nested_ = 0;
  Imported out_;
};

OnnxShape OnnxReader::shape_of(const std::string& name) const {
  const auto found = shapes_.find(name);
  return found == shapes_.end() ? OnnxShape{} : found->second;
}

std::string OnnxReader::bind(const std::string& name, std::uint32_t tensor) {
  if (tensor_of_.emplace(name, tensor).second) return {};
  return "the value " + in_quotes(name) + " occurs twice";
}

std::string OnnxReader::new_tensor(const std::string& name, TensorKind kind, const OnnxShape& shape) {
  const double bytes = shape.elements() * shape.element_bytes;
  if (bytes > static_cast<double>(most_tensor_bytes))
    return "the value " + in_quotes(name) + " is over 1 PiB";
  if (!shape.known) ++unsized_;
  if (shape.sides.size() > most_dimensions) return too_many_sides(name);
  const auto index = static_cast<std::uint32_t>(out_.trace.tensors.size());
  const bool persistent = kind == TensorKind::weight || kind == TensorKind::input;
  out_.trace.tensors.push_back(
      {index, static_cast<std::uint64_t>(bytes), kind, persistent, {}, shape.dtype, shape.sides});
  return bind(name, index);
}

// What the file says of a value's shape. An open dimension (the batch) counts as the model of costs says.
std::string OnnxReader::declare(const onnx::ValueInfoProto& value, bool counts) {
  if (!value.type().has_tensor_type()) return {};
  const auto& type = value.type().tensor_type();
  if (static_cast<std::size_t>(type.shape().dim_size()) > most_dimensions)
    return too_many_sides(value.name());
  OnnxShape shape = typed(type.elem_type());
  shape.known = type.has_shape() && shape.element_bytes > 0;
  for (const auto& dim : type.shape().dim()) {
    const bool open = !dim.has_dim_value() || dim.dim_value() <= 0;
    closed_ += counts && open ? 1 : 0;
    shape.sides.push_back(open ? costs_.open_dimension : dim.dim_value());
    shape.known = shape.known && shape.sides.back() < largest_side;
  }
  if (!shape.known) shape.sides.clear();
  shapes_[value.name()] = shape;
  return {};
}

void OnnxReader::keep_constant(const std::string& name, const onnx::TensorProto& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t side : tensor.dims()) {
    if (side < 0 || side > most_constants) return;
    count *= side;
    if (count > most_constants) return;
  }
  if (tensor.data_type() != onnx::TensorProto::INT64) return;
  if (auto all = whole_numbers(tensor, static_cast<std::size_t>(count))) constants_[name] = std::move(*all);
}

OnnxShape shape_of_weight(const onnx::TensorProto& weight) {
  OnnxShape shape = typed(weight.data_type());
  shape.known = shape.element_bytes > 0;
  for (const std::int64_t side : weight.dims()) {
    shape.known = shape.known && side >= 0 && side < largest_side;
    shape.sides.push_back(side);
  }
  if (!shape.known) shape.sides.clear();
  return shape;
}

std::string OnnxReader::types() {
  const onnx::GraphProto& graph = model_.graph();
  for (const auto* list : {&graph.value_info(), &graph.output(), &graph.input()}) {
    for (const onnx::ValueInfoProto& value : *list) {
      if (std::string wrong = declare(value, list == &graph.input()); !wrong.empty()) return wrong;
    }
  }
  return {};
}

// Inference goes first: what an exporter wrote may have the batch open in the middle of a product.
std::string OnnxReader::infer(const onnx::NodeProto& node) {
  if (node.output_size() == 0) return {};
  std::vector<OnnxShape> in;
  for (const std::string& name : node.input()) in.push_back(shape_of(name));
  const ConstantsOf constants = [this](const std::string& name) -> const std::vector<std::int64_t>* {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : &found->second;
  };
  OnnxShape shape = infer_shape(node, in, constants);
  if (shape.sides.size() > most_dimensions) return too_many_sides(node.output(0));
  if (shape.known) shapes_[node.output(0)] = std::move(shape);
  return {};
}

std::string OnnxReader::weights() {
  for (const onnx::TensorProto& weight : model_.graph().initializer()) {
    keep_constant(weight.name(), weight);
    shapes_[weight.name()] = shape_of_weight(weight);
    std::string wrong = new_tensor(weight.name(), TensorKind::weight, shapes_[weight.name()]);
    if (!wrong.empty()) return wrong;
  }
  for (const onnx::ValueInfoProto& input : model_.graph().input()) {
    if (tensor_of_.count(input.name()) > 0) continue;  // a weight with a default
    if (std::string wrong = new_tensor(input.name(), TensorKind::input, shape_of(input.name()));
        !wrong.empty()) {
      return wrong;
    }
  }
  return {};
}

std::string OnnxReader::inputs(const onnx::NodeProto& node, int index, wire::TraceOp* op) {
  for (const std::string& name : node.input()) {
    if (name.empty()) continue;  // an optional one that is left out
    const auto found = tensor_of_.find(name);
    if (found == tensor_of_.end()) {
      return json_place("node", static_cast<std::size_t>(index)) + ": the input " + in_quotes(name) +
             " is the output of no node before";
    }
    op->inputs.push_back(found->second);
  }
  return {};
}

std::string OnnxReader::constant(const onnx::NodeProto& node) {
  if (node.output_size() != 1) return "a Constant must have one output";
  const onnx::AttributeProto* value = onnx_attribute(node, "value");
  OnnxShape shape = shape_of(node.output(0));
  if (value != nullptr && value->has_t()) {
    shape = shape_of_weight(value->t());
    keep_constant(node.output(0), value->t());
  }
  shapes_[node.output(0)] = shape;
  return new_tensor(node.output(0), TensorKind::weight, shape);
}

bool sees_only(const onnx::NodeProto& node) {
  static const std::unordered_set<std::string> views = {"Reshape", "Flatten", "Squeeze", "Unsqueeze",
                                                        "Identity"};
  return node.output_size() == 1 && node.input_size() > 0 && !node.input(0).empty() &&
         views.count(node.op_type()) > 0;
}

OnnxCosts OnnxReader::costs(const onnx::NodeProto& node) const {
  std::vector<OnnxShape> in;
  std::vector<OnnxShape> out;
  for (const std::string& name : node.input()) in.push_back(shape_of(name));
  for (const std::string& name : node.output()) out.push_back(shape_of(name));
  return onnx_costs(node, in, out);
}

std::string OnnxReader::node(int index) {
  const onnx::NodeProto& node = model_.graph().node(index);
  if (node.op_type() == "Constant") return constant(node);
  wire::TraceOp op;
  op.name = text_within(node.op_type() + "/" + (node.name().empty() ? std::to_string(index) : node.name()));
  if (std::max(node.input_size(), node.output_size()) > most_values_of_node)
    return json_place("node", static_cast<std::size_t>(index)) + ": too many inputs or outputs";
  if (std::string wrong = inputs(node, index, &op); !wrong.empty()) return wrong;
  if (std::string wrong = infer(node); !wrong.empty()) return wrong;
  for (const onnx::AttributeProto& a : node.attribute()) nested_ += a.has_g() || a.graphs_size() > 0 ? 1 : 0;
  if (sees_only(node)) {
    if (std::string wrong = bind(node.output(0), op.inputs.front()); !wrong.empty()) return wrong;
  } else {
    for (const std::string& name : node.output()) {
      if (name.empty()) continue;
      op.outputs.push_back(static_cast<std::uint32_t>(out_.trace.tensors.size()));
      if (std::string wrong = new_tensor(name, TensorKind::activation, shape_of(name)); !wrong.empty())
        return wrong;
    }
    const OnnxCosts cost = costs(node);
    op.flops = bounded(cost.flops, most_flops);
    op.time_us =
        bounded(1e6 * std::max(*op.flops / costs_.flops_per_second, cost.bytes / costs_.bytes_per_second),
                most_time_us);
  }
  op.recomputable = node.op_type().find("Random") == std::string::npos && node.op_type() != "Dropout";
  out_.trace.ops.push_back(std::move(op));
  return {};
}

// What the graph gives stays to the end.
void OnnxReader::outputs() {
  wire::TraceOp end;
  end.name = "outputs";
  for (const onnx::ValueInfoProto& output : model_.graph().output()) {
    const auto found = tensor_of_.find(output.name());
    if (found != tensor_of_.end()) end.inputs.push_back(found->second);
  }
  out_.trace.ops.push_back(std::move(end));
}

void OnnxReader::note() {
  out_.notes.emplace_back(
      "times are estimates from floating-point operations and bytes; there is no backward pass");
  if (closed_ > 0) {
    out_.notes.push_back(std::to_string(closed_) + " open dimensions of the inputs count as " +
                         std::to_string(costs_.open_dimension));
  }
  if (unsized_ > 0) {
    out_.notes.push_back(std::to_string(unsized_) + " values of unknown size count as 0 bytes");
  }
  if (nested_ > 0)
    out_.notes.push_back(std::to_string(nested_) + " graphs inside operators (If, Loop) were left out");
}

std::string OnnxReader::graph() {
  const onnx::GraphProto& graph = model_.graph();
  if (graph.node_size() == 0) return "the model has no operators";
  if (static_cast<std::size_t>(graph.node_size()) > most_ops) return "more operators than a trace can hold";
  if (std::string wrong = types(); !wrong.empty()) return wrong;
  if (std::string wrong = weights(); !wrong.empty()) return wrong;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (std::string wrong = node(i); !wrong.empty()) return wrong;
  }
  outputs();
  note();
  return check_limits(out_.trace);
}

Result<Imported> OnnxReader::read(std::string_view bytes) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return refused<Imported>(
        "the model is larger than 2 GiB, which protobuf cannot read; keep the weights in a file of their "
        "own");
  }
  const OnnxWire wire = check_onnx_wire(bytes);
  if (wire == OnnxWire::too_much) {
    return refused<Imported>("the model's operators, names and shapes would take over " +
                             std::to_string(most_onnx_overhead_bytes >> 20) + " MiB of memory");
  }
  if (wire == OnnxWire::not_onnx || !model_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !model_.has_graph()) {
    return refused<Imported>("not a valid ONNX model");
  }
  out_.trace.name = text_within(model_.graph().name());
  out_.trace.source = "ONNX, " + text_within(model_.producer_name(), 64);
  std::string error = graph();
  if (!error.empty()) return refused<Imported>(std::move(error));
  return ok(std::move(out_));
}

}  // namespace

Result<Imported> import_onnx(std::string_view bytes, const FlopModel& model) {
  return OnnxReader(model).read(bytes);
}

}  // namespace terrace::import
