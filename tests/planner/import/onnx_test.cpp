// Small models built here, with shapes, costs and mistakes that are known.
#include <onnx/onnx_pb.h>

#include <catch2/catch.hpp>

#include "daemon/planner/import/import.h"

namespace terrace::planner {
namespace {

using wire::TensorKind;

void add_value(onnx::ValueInfoProto* value, const std::string& name, const std::vector<std::int64_t>& sides) {
  value->set_name(name);
  auto* type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t side : sides) {
    auto* dim = type->mutable_shape()->add_dim();
    if (side > 0) {
      dim->set_dim_value(side);
    } else {
      dim->set_dim_param("batch");
    }
  }
}

void add_weight(onnx::GraphProto* graph, const std::string& name, const std::vector<std::int64_t>& sides) {
  onnx::TensorProto* weight = graph->add_initializer();
  weight->set_name(name);
  weight->set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t side : sides) weight->add_dims(side);
}

void add_node(onnx::GraphProto* graph, const std::string& type, const std::vector<std::string>& in,
              const std::string& out) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(type);
  for (const std::string& name : in) node->add_input(name);
  node->add_output(out);
}

// x [batch, 3, 8, 8] -> Conv with 4 filters of 3 × 3 × 3 -> Relu -> Flatten -> Gemm to 5 values.
onnx::ModelProto model() {
  onnx::ModelProto m;
  m.set_ir_version(7);
  m.add_opset_import()->set_version(13);
  onnx::GraphProto* g = m.mutable_graph();
  g->set_name("small");
  add_value(g->add_input(), "x", {0, 3, 8, 8});
  add_value(g->add_output(), "y", {0, 5});
  add_weight(g, "w", {4, 3, 3, 3});
  add_weight(g, "v", {144, 5});
  add_weight(g, "b", {5});
  add_node(g, "Conv", {"x", "w"}, "c");
  add_node(g, "Relu", {"c"}, "r");
  add_node(g, "Flatten", {"r"}, "f");
  add_node(g, "Gemm", {"f", "v", "b"}, "y");
  return m;
}

std::string error_in_model(const onnx::ModelProto& m) { return import_onnx(m.SerializeAsString()).error; }

}  // namespace

TEST_CASE("A model becomes tensors with inferred sizes and operations with estimated times") {
  FlopModel costs;
  costs.open_dimension = 2;
  costs.flops_per_second = 1e6;  // slow, so that computing and not moving decides
  const std::string bytes = model().SerializeAsString();
  CHECK(recognise(bytes).value == TraceFormat::onnx);
  const Result<Imported> i = import_onnx(bytes, costs);
  INFO(i.error);
  REQUIRE(i);
  const wire::Trace& t = i->trace;
  CHECK(t.name == "small");
  REQUIRE(t.tensors.size() == 7);  // w v b x c r y; f is r seen in another shape
  CHECK((t.tensors[0].kind == TensorKind::weight && t.tensors[0].bytes == 432 && t.tensors[0].persistent));
  CHECK((t.tensors[3].kind == TensorKind::input && t.tensors[3].bytes == 1536));
  CHECK(t.tensors[4].shape == std::vector<std::int64_t>{2, 4, 6, 6});
  CHECK(t.tensors[4].dtype == "float32");
  CHECK(t.tensors[6].bytes == 40);
  REQUIRE(t.ops.size() == 5);
  CHECK(*t.ops[0].flops == 2 * (2 * 4 * 36) * 27);
  CHECK(t.ops[0].time_us == Approx(2. * (2 * 4 * 36) * 27));
  CHECK(*t.ops[1].flops == 2 * 4 * 36);
  CHECK((t.ops[2].outputs.empty() && t.ops[2].inputs == t.ops[1].outputs));
  CHECK(*t.ops[3].flops == 2 * (2 * 5) * 144);
  CHECK(t.ops[3].inputs == std::vector<std::uint32_t>{5, 1, 2});
  CHECK(t.ops[4].inputs == std::vector<std::uint32_t>{6});
}

TEST_CASE("What moves many bytes takes as long as that") {
  FlopModel costs;
  costs.bytes_per_second = 1;
  const Result<Imported> i = import_onnx(model().SerializeAsString(), costs);
  REQUIRE(i);
  CHECK(i->trace.ops[1].time_us == Approx(1e6 * 2 * 4 * 144));  // the Relu reads and writes 144 values
}

TEST_CASE("Wrong models are refused") {
  CHECK(import_onnx("").error == "not a valid ONNX model");
  CHECK(import_onnx("\x08\x07garbage").error == "not a valid ONNX model");
  onnx::ModelProto empty = model();
  empty.mutable_graph()->clear_node();
  CHECK(error_in_model(empty) == "the model has no operators");
  onnx::ModelProto unsorted = model();
  unsorted.mutable_graph()->mutable_node()->SwapElements(0, 1);
  CHECK(error_in_model(unsorted) == "node[0]: its input \"c\" is made by no node before it");
  onnx::ModelProto twice = model();
  *twice.mutable_graph()->mutable_node(1)->mutable_output(0) = std::string("c");
  CHECK(error_in_model(twice).find("\"c\" is there twice") != std::string::npos);
  onnx::ModelProto huge = model();
  huge.mutable_graph()->mutable_initializer(0)->clear_dims();
  for (int n = 0; n < 3; ++n) huge.mutable_graph()->mutable_initializer(0)->add_dims(std::int64_t{1} << 30);
  CHECK_FALSE(import_onnx(huge.SerializeAsString()));
  onnx::ModelProto impossible = model();
  impossible.mutable_graph()->mutable_initializer(0)->set_dims(1, 7);  // channels that x does not have
  CHECK_NOTHROW(import_onnx(impossible.SerializeAsString()));
}

TEST_CASE("Every truncation of a model is refused or read, and nothing else happens") {
  const std::string whole = model().SerializeAsString();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const Result<Imported> i = import_onnx(whole.substr(0, n));
    CHECK(i.error.empty() == bool(i));
  }
}

}  // namespace terrace::planner
