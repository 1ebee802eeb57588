// Small models built here, with shapes, costs and mistakes that are known.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/trace_json.h"
#include "daemon/planner/trace_limits.h"
#include "tools/import/import.h"
#include "tools/import/onnx_memory.h"

namespace terrace::import {

using planner::most_text_bytes;
using planner::parse_trace;
using planner::trace_json;

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

// x [1] seen in the shape that a constant of `count` ones gives which says to hold `told`.
onnx::ModelProto reshaped(std::int64_t told, std::size_t count) {
  onnx::ModelProto m;
  m.set_ir_version(7);
  onnx::GraphProto* g = m.mutable_graph();
  add_value(g->add_input(), "x", {1});
  onnx::TensorProto* shape = g->add_initializer();
  shape->set_name("s");
  shape->set_data_type(onnx::TensorProto::INT64);
  shape->add_dims(told);
  const std::vector<std::int64_t> ones(count, 1);
  shape->set_raw_data(ones.data(), ones.size() * sizeof(std::int64_t));
  add_node(g, "Reshape", {"x", "s"}, "y");
  return m;
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

// A field with a length before it, as on the wire.
std::string with_length(char tag, const std::string& content) {
  std::string all(1, tag);
  std::size_t rest = content.size();
  for (; rest >= 128; rest >>= 7) all += static_cast<char>(rest | 128);
  return all + static_cast<char>(rest) + content;
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
  CHECK(error_in_model(unsorted) == "node[0]: the input \"c\" is the output of no node before");
  onnx::ModelProto twice = model();
  *twice.mutable_graph()->mutable_node(1)->mutable_output(0) = std::string("c");
  CHECK(error_in_model(twice).find("\"c\" occurs twice") != std::string::npos);
  onnx::ModelProto huge = model();
  huge.mutable_graph()->mutable_initializer(0)->clear_dims();
  for (int n = 0; n < 3; ++n) huge.mutable_graph()->mutable_initializer(0)->add_dims(std::int64_t{1} << 30);
  CHECK_FALSE(import_onnx(huge.SerializeAsString()));
  onnx::ModelProto impossible = model();
  impossible.mutable_graph()->mutable_initializer(0)->set_dims(1, 7);  // channels that x does not have
  CHECK_NOTHROW(import_onnx(impossible.SerializeAsString()));
}

TEST_CASE("What would take far more memory than its bytes is refused before it is built") {
  const std::string graph = with_length(0x3a, repeated(std::string_view("\x0a\0", 2), 4'000'000));
  CHECK(import_onnx("\x08\x07" + graph).error ==
        "the model's operators, names and shapes would take over 512 MiB of memory");
  // node { attribute { ints: 0, … } }, packed
  const std::string numbers = with_length(0x42, std::string((std::size_t{64} << 20) + 1, '\0'));
  CHECK(check_onnx_wire(with_length(0x3a, with_length(0x0a, with_length(0x2a, numbers)))) ==
        OnnxWire::too_much);
  const std::string texts = repeated(std::string_view("\x0a\0", 2), 14'000'000);  // node { input: "" … }
  CHECK(check_onnx_wire(with_length(0x3a, with_length(0x0a, texts))) == OnnxWire::too_much);
  const std::string unknown = repeated(std::string_view("\x78\0", 2), 10'000'000);  // number 15 of the model
  CHECK(check_onnx_wire(unknown) == OnnxWire::too_much);
}

TEST_CASE("Weights may be large, and what is no message is told apart") {
  onnx::ModelProto heavy = model();
  heavy.mutable_graph()->mutable_initializer(0)->set_raw_data(std::string(std::size_t{1} << 20, 'x'));
  CHECK(check_onnx_wire(heavy.SerializeAsString()) == OnnxWire::fits);
  CHECK(check_onnx_wire("\x3a\x05") == OnnxWire::not_onnx);  // five bytes are missing
  CHECK(check_onnx_wire("\x0b\x0c") == OnnxWire::not_onnx);  // a group
  std::string deep;                                          // graph { node { attribute { g { node …
  for (int i = 0; i < 40; ++i) deep = with_length(0x0a, with_length(0x2a, with_length(0x32, deep)));
  CHECK(check_onnx_wire(with_length(0x3a, deep)) == OnnxWire::not_onnx);
}

TEST_CASE("A constant counts only if it holds as many numbers as it says, and no shape has over 32 sides") {
  const Result<Imported> other = import_onnx(reshaped(1, 40).SerializeAsString());
  REQUIRE(other);
  CHECK(std::count_if(other->notes.begin(), other->notes.end(), [](const std::string& note) {
          return note.find("of unknown size") != std::string::npos;
        }) == 0);  // y is x seen in a shape that is not known
  CHECK(import_onnx(reshaped(32, 32).SerializeAsString()));
  CHECK(error_in_model(reshaped(33, 33)) == "the value \"y\" has over 32 dimensions");
  onnx::ModelProto declared = model();
  onnx::ValueInfoProto* value = declared.mutable_graph()->add_value_info();
  add_value(value, "r", std::vector<std::int64_t>(33, 1));
  CHECK(error_in_model(declared) == "the value \"r\" has over 32 dimensions");
  onnx::ModelProto wide = model();
  for (int i = 0; i < 20'000; ++i) wide.mutable_graph()->mutable_node(3)->add_input("b");
  CHECK(error_in_model(wide) == "node[3]: too many inputs or outputs");
}

TEST_CASE("Names that are not UTF-8, or too long, become ones that a trace can hold") {
  onnx::ModelProto m = model();
  m.set_producer_name(std::string(63, 'a') + "\u00e9");
  m.mutable_graph()->set_name("\xff");
  m.mutable_graph()->mutable_node(0)->set_name(std::string(most_text_bytes, '\xff'));
  const Result<Imported> i = import_onnx(m.SerializeAsString());
  REQUIRE(i);
  CHECK(i->trace.source == "ONNX, " + std::string(63, 'a'));
  CHECK(i->trace.name == "\ufffd");
  const Result<wire::Trace> back = parse_trace(trace_json(i->trace));
  INFO(back.error);
  REQUIRE(back);
  CHECK(back->ops[0].name == i->trace.ops[0].name);
}

TEST_CASE("Every truncation of a model is refused or read, and nothing else happens") {
  const std::string whole = model().SerializeAsString();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const Result<Imported> i = import_onnx(whole.substr(0, n));
    CHECK(i.error.empty() == bool(i));
  }
}

}  // namespace terrace::import
