// Files are hostile until checked: what is right is read and written back the same, and every kind of mistake
// is refused with the place where it stands.
#include "daemon/planner/trace_json.h"

#include <catch2/catch.hpp>

#include "daemon/planner/trace_limits.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

const std::string trace_head = R"({"format":"terrace-trace","version":1,"name":"n","source":"s",)";

std::string with(const std::string& ops, const std::string& tensors) {
  return trace_head + "\"ops\":[" + ops + "],\"tensors\":[" + tensors + "]}";
}

std::string op(const std::string& fields) { return with("{" + fields + "}", R"({"id":7,"bytes":8})"); }
std::string tensor(const std::string& fields) { return with("", "{" + fields + "}"); }
std::string error_in_trace(const std::string& text) { return parse_trace(text).error; }

bool same(const wire::TraceTensor& a, const wire::TraceTensor& b) {
  return a.id == b.id && a.bytes == b.bytes && a.kind == b.kind && a.persistent == b.persistent &&
         a.sparsity == b.sparsity && a.dtype == b.dtype && a.shape == b.shape;
}

bool same(const wire::TraceOp& a, const wire::TraceOp& b) {
  return a.name == b.name && a.time_us == b.time_us && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.workspace_bytes == b.workspace_bytes && a.flops == b.flops && a.recomputable == b.recomputable &&
         a.sign_only == b.sign_only;
}

bool same(const wire::Trace& a, const wire::Trace& b) {
  const auto equal = [](const auto& x, const auto& y) { return same(x, y); };
  return a.name == b.name && a.source == b.source && a.reads_known == b.reads_known &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), equal) &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), equal);
}

}  // namespace

TEST_CASE("A trace is read with every field, and tensors may stand behind the operations that name them") {
  const Result<wire::Trace> trace = parse_trace(with(
      R"({"name":"a","time_us":1.5,"inputs":[9,7],"outputs":[7],"workspace_bytes":3,"flops":2e9,"recomputable":false},
              {"name":"b","time_us":0,"inputs":[],"outputs":[],"unknown":{"x":[1,{"y":2}]}})",
      R"({"id":7,"bytes":100,"kind":"weight","persistent":true,"sparsity":0.25,"dtype":"float32","shape":[5,5]},
              {"id":9,"bytes":0})"));
  INFO(trace.error);
  REQUIRE(trace);
  CHECK(trace->name == "n");
  CHECK(trace->source == "s");
  REQUIRE(trace->ops.size() == 2);
  CHECK(same(trace->ops[0], {"a", 1.5, {1, 0}, {0}, 3, 2e9, false}));
  CHECK(same(trace->ops[1], {"b", 0, {}, {}, 0, {}, true}));
  REQUIRE(trace->tensors.size() == 2);
  CHECK(same(trace->tensors[0], {7, 100, wire::TensorKind::weight, true, 0.25, "float32", {5, 5}}));
  CHECK(same(trace->tensors[1], {9, 0, wire::TensorKind::other, false, {}, {}, {}}));
}

TEST_CASE("What is written reads back the same") {
  wire::Trace trace{"a \"name\"\n", "ü", {}, {}};
  trace.tensors = {{5, 1000, wire::TensorKind::optimizer, true, 1.0 / 3, "bfloat16", {2, 3}},
                   {1ULL << 60, most_tensor_bytes, wire::TensorKind::gradient, false, {}, {}, {}}};
  trace.ops = {{"x", 0.1, {0, 1, 0}, {1}, 77, 12.5, false}, {"", 123456789.123, {}, {}, 0, {}, true}};
  const Result<wire::Trace> back = parse_trace(trace_json(trace));
  INFO(back.error);
  REQUIRE(back);
  CHECK(same(*back, trace));
  CHECK(trace_json(*back) == trace_json(trace));
}

TEST_CASE("Inputs of which an operation needs the signs alone are written and read") {
  wire::Trace trace{"n", "s", {}, {}};
  trace.tensors = {{5, 8, {}, false, {}, "float32", {}}, {6, 8, {}, false, {}, "float32", {}}};
  trace.ops = {{"x", 3, {0, 1}, {}, 5, {}, true}};
  CHECK(trace_json(trace).find("sign_only") == std::string::npos);
  trace.ops[0].sign_only = {1, 0};
  CHECK(trace_json(trace).find(R"("sign_only":[6,5])") != std::string::npos);
  const Result<wire::Trace> back = parse_trace(trace_json(trace));
  INFO(back.error);
  REQUIRE(back);
  CHECK(same(*back, trace));
  CHECK(trace_json(*back) == trace_json(trace));
  const auto error = [](const std::string& signs) {
    return error_in_trace(
        with(R"({"name":"a","time_us":1,"inputs":[7,8],"outputs":[8],"sign_only":)" + signs + "}",
             R"({"id":7,"bytes":8},{"id":8,"bytes":8},{"id":9,"bytes":8})"));
  };
  CHECK(error("[7]").empty());
  CHECK(error("[]").empty());
  CHECK_THAT(error("7"), Catch::StartsWith("ops[0].sign_only"));
  CHECK_THAT(error("[-1]"), Catch::StartsWith("ops[0].sign_only[0]"));
  CHECK(error("[7,99]") == "ops[0].sign_only[1]: there is no tensor 99");
  CHECK(error("[9]") == "ops[0].sign_only[0]: tensor 9 is no input of the operation; name inputs alone");
  CHECK(error("[8]") == "ops[0].sign_only[0]: tensor 8 is an output, too; leave it out here");
  CHECK(error("[7,7]") == "ops[0].sign_only[0]: tensor 7 stands twice; name it once");
}

TEST_CASE("Variants of an operation are written and read") {
  wire::Trace trace{"n", "s", {}, {}};
  trace.ops = {{"x", 3, {}, {}, 5, {}, true}};
  trace.ops[0].variants = {{"parts 2", 4.5, 3}, {"native", 2, 0}};
  const Result<wire::Trace> back = parse_trace(trace_json(trace));
  INFO(back.error);
  REQUIRE(back);
  const std::vector<wire::OpVariant>& v = back->ops[0].variants;
  REQUIRE(v.size() == 2);
  CHECK((v[0].name == "parts 2" && v[0].time_us == 4.5 && v[0].workspace_bytes == 3));
  CHECK((v[1].name == "native" && v[1].time_us == 2 && v[1].workspace_bytes == 0));
  CHECK(trace_json(*back) == trace_json(trace));
  const auto error = [](const std::string& variants) {
    return error_in_trace(op(R"("name":"a","time_us":1,"inputs":[],"outputs":[],"variants":)" + variants));
  };
  CHECK_THAT(error("7"), Catch::StartsWith("ops[0].variants"));
  CHECK_THAT(error(R"([{"time_us":1}])"), Catch::StartsWith("ops[0].variants[0].name"));
  CHECK_THAT(error(R"([{"name":"b","time_us":-1}])"), Catch::StartsWith("ops[0].variants[0].time_us"));
  CHECK_THAT(error(R"([{"name":"b","time_us":1,"workspace_bytes":-1}])"),
             Catch::StartsWith("ops[0].variants[0].workspace_bytes"));
  CHECK_THAT(error(R"([{"name":"b","time_us":1},{"name":"b","time_us":2}])"),
             Catch::Equals("ops[0].variants[1].name: \"b\" is the name of another variant, too"));
  std::string many = "[";
  for (int i = 0; i < 65; ++i) many += R"({"time_us":1,"name":")" + std::to_string(i) + "\"},";
  many.back() = ']';
  CHECK_THAT(error(many), Catch::Equals("ops[0].variants: more than 64"));
}

TEST_CASE("That reads are not known is written and read") {
  wire::Trace trace{"n", "s", {}, {}, false};
  CHECK(trace_json(trace).find("\"reads_known\":false") != std::string::npos);
  const Result<wire::Trace> back = parse_trace(trace_json(trace));
  REQUIRE(back);
  CHECK_FALSE(back->reads_known);
  trace.reads_known = true;
  CHECK(trace_json(trace).find("reads_known") == std::string::npos);
  CHECK(error_in_trace(trace_head + R"("reads_known":0,"ops":[],"tensors":[]})") ==
        "reads_known: expected true or false");
}

TEST_CASE("Names cut in the middle of a character are written as valid text") {
  wire::Trace trace{"cut \xc3", "", {}, {}};
  CHECK(parse_trace(trace_json(trace)));
}

TEST_CASE("Wrong formats and versions are refused") {
  CHECK(error_in_trace("{}") == "this is no terrace-trace: the field \"format\" is missing");
  CHECK(error_in_trace(R"({"format":"terrace-trace"})") == "the field \"version\" is missing");
  CHECK(error_in_trace(R"({"format":"other","version":1})") ==
        "this is no terrace-trace: its format says \"other\"");
  CHECK(error_in_trace(R"({"format":"terrace-trace","version":2})") ==
        "version 2 of terrace-trace is not known here, only version 1 is");
  CHECK(error_in_trace("[]") == "the document is no JSON object");
  CHECK(error_in_trace("12") == "the document is no JSON object");
  CHECK(error_in_trace("").find("not valid JSON") == 0);
  CHECK(error_in_trace(trace_head).find("not valid JSON") == 0);
  CHECK(error_in_trace(with("", "") + "x").find("not valid JSON") == 0);
}

TEST_CASE("A wrong operation is refused with its place") {
  const std::string rest = R"(,"inputs":[],"outputs":[])";
  CHECK(error_in_trace(op(R"("name":"a","time_us":1,"inputs":[7,7,99],"outputs":[])")) ==
        "ops[0].inputs[2]: there is no tensor 99");
  CHECK(error_in_trace(op(R"("name":"a","time_us":1,"inputs":[],"outputs":[8])")) ==
        "ops[0].outputs[0]: there is no tensor 8");
  CHECK(error_in_trace(op(R"("name":"a","time_us":1,"inputs":["7"],"outputs":[])")) ==
        "ops[0].inputs[0]: expected the id of a tensor");
  CHECK(error_in_trace(op(R"("name":"a","time_us":1,"inputs":7,"outputs":[])")) ==
        "ops[0].inputs: expected a list");
  CHECK(error_in_trace(op(R"("name":"a","time_us":1,"inputs":[])")) == "ops[0].outputs: missing");
  CHECK(error_in_trace(op(R"("name":"a","time_us":-1)" + rest)) ==
        "ops[0].time_us: expected a number that is not negative");
  CHECK(error_in_trace(op(R"("name":"a","time_us":"1")" + rest)) ==
        "ops[0].time_us: expected a number that is not negative");
  CHECK(error_in_trace(op(R"("name":"a","time_us":1e300)" + rest)).find("ops[0].time_us: 1e+300 is over") ==
        0);
  CHECK_FALSE(error_in_trace(op(R"("name":"a","time_us":1e999)" + rest)).empty());
  CHECK(error_in_trace(op(R"("name":"a","time_us":NaN)" + rest)).find("not valid JSON") == 0);
  CHECK(error_in_trace(op(R"("time_us":1)" + rest)) == "ops[0].name: missing");
  CHECK(error_in_trace(op(R"("name":3,"time_us":1)" + rest)) == "ops[0].name: expected a text");
  CHECK(error_in_trace(op(R"("name":"a","name":"b","time_us":1)" + rest)) ==
        "ops[0]: the field \"name\" stands there twice");
  CHECK(error_in_trace(op(R"("name":"a","time_us":1,"workspace_bytes":-4)" + rest)) ==
        "ops[0].workspace_bytes: expected a whole number that is not negative");
  CHECK(error_in_trace(op(R"("name":"a","time_us":1,"recomputable":1)" + rest)) ==
        "ops[0].recomputable: expected true or false");
  CHECK(error_in_trace(with("3", "")) == "ops[0]: expected an object");
  CHECK(error_in_trace(trace_head + "\"ops\":{}}") == "ops: expected a list");
  CHECK(error_in_trace(trace_head + "\"ops\":7}") == "ops: expected a list");
}

TEST_CASE("A wrong tensor is refused with its place") {
  CHECK(error_in_trace(with("", R"({"id":1,"bytes":1},{"id":1,"bytes":2})")) ==
        "tensors[1].id: 1 is the id of another tensor, too");
  CHECK(error_in_trace(tensor(R"("id":1,"bytes":-1)")) ==
        "tensors[0].bytes: expected a whole number that is not negative");
  CHECK(error_in_trace(tensor(R"("id":1,"bytes":1.5)")) ==
        "tensors[0].bytes: expected a whole number that is not negative");
  CHECK(error_in_trace(tensor(R"("id":1,"bytes":1125899906842625)")) ==
        "tensors[0].bytes: 1125899906842625 is over the limit of 1125899906842624");
  CHECK(error_in_trace(tensor(R"("id":1,"bytes":1,"kind":"wait")"))
            .find("tensors[0].kind: \"wait\" is none of weight,") == 0);
  CHECK(error_in_trace(tensor(R"("id":1,"bytes":1,"sparsity":1.5)")) ==
        "tensors[0].sparsity: 1.5 is over the limit of 1.0");
  CHECK(error_in_trace(tensor(R"("id":1,"bytes":1,"shape":[2,-1])")) ==
        "tensors[0].shape[1]: expected a whole number that is not negative");
  CHECK(error_in_trace(tensor(R"("id":1)")) == "tensors[0].bytes: missing");
  CHECK(error_in_trace(tensor(R"("id":1,"bytes":1,"persistent":"yes")")) ==
        "tensors[0].persistent: expected true or false");
}

TEST_CASE("Sums that would overflow are refused") {
  std::string tensors;
  for (int i = 0; i < 4097; ++i) {
    tensors +=
        (i == 0 ? "" : ",") + std::string(R"({"bytes":1125899906842624,"id":)") + std::to_string(i) + "}";
  }
  CHECK(error_in_trace(with("", tensors)) == "tensors: their sizes add up to more than 4 EiB");
}

TEST_CASE("Depth is bounded, also in fields that nobody reads") {
  CHECK(error_in_trace(trace_head + "\"x\":" + std::string(100'000, '[')) == "nested deeper than 64");
  CHECK(error_in_trace(with("{\"x\":" + std::string(100'000, '['), "")) == "nested deeper than 64");
}

TEST_CASE("Lists that stand there twice are refused") {
  CHECK(error_in_trace(trace_head + R"("tensors":[{"id":1,"bytes":1}],"tensors":[{"id":2,"bytes":1}]})") ==
        "tensors: stands there twice");
}

TEST_CASE("Every trace of the reference data is read") {
  struct Known {
    const char* file;
    std::size_t ops, tensors;
  };
  for (const Known& known : {Known{"g10/BERT_Base-256.json.gz", 1369, 1463},
                             {"g10/SENet154-1024.json.gz", 2319, 3744},
                             {"dtr/lstm-128.json.gz", 7926, 5247},
                             {"dtr/unroll_gan-512.json.gz", 6024, 5224}}) {
    const std::optional<std::string> text = test::reference_data(known.file);
    if (!text) return;
    const Result<wire::Trace> trace = parse_trace(*text);
    INFO(known.file << ": " << trace.error);
    REQUIRE(trace);
    CHECK(trace->ops.size() == known.ops);
    CHECK(trace->tensors.size() == known.tensors);
    const Result<wire::Trace> back = parse_trace(trace_json(*trace));
    REQUIRE(back);
    CHECK(same(*back, *trace));
  }
}

}  // namespace terrace::planner
