// simrd's logs, execution traces, lifetimes, and which is which.
#include "tools/import/import.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>

#include "daemon/planner/trace_json.h"
#include "daemon/planner/trace_limits.h"
#include "tests/planner/reference_data.h"

namespace terrace::import {

using planner::Instance;
using planner::instance_of;
using planner::max_live_bytes;
using planner::most_text_bytes;
using planner::overlap_in_time;
using planner::parse_trace;
using planner::trace_json;

namespace {

using wire::TensorKind;

const std::string log_head = R"({"INSTRUCTION":"CONSTANT","NAME":"before"}
{"INSTRUCTION":"MEMORY","NAME":"before","MEMORY":"4"}
{"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}
{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","NAME":"w","MEMORY":"100"}
{"INSTRUCTION":"CONSTANT","NAME":"x"}
{"INSTRUCTION":"MEMORY","NAME":"x","MEMORY":"40"}
)";

std::string call(const std::string& name, const std::string& args, const std::string& result, int bytes,
                 int alias) {
  return R"({"INSTRUCTION":"CALL","NAME":")" + name + R"(","ARGS":[)" + args + R"(],"RESULT":[")" + result +
         R"("],"TIME":"1500"})" + "\n" + R"({"INSTRUCTION":"MEMORY","NAME":")" + result + R"(","MEMORY":")" +
         std::to_string(bytes) + "\"}\n" + R"({"INSTRUCTION":"ALIAS","NAME":")" + result + R"(","ALIAS":")" +
         std::to_string(alias) + "\"}\n";
}

std::string simrd_error(const std::string& rest) { return import_simrd(log_head + rest).error; }

std::string et(const std::string& nodes) { return R"({"schema":"1.1.0","nodes":[)" + nodes + "]}"; }

// A node whose inputs and outputs are storages of 4 × `elements` bytes.
std::string node(int id, int parent, const std::string& name, const std::string& in, const std::string& out) {
  return R"({"id":)" + std::to_string(id) + R"(,"ctrl_deps":)" + std::to_string(parent) + R"(,"name":")" +
         name + R"(","inputs":{"values":[)" + in + R"(],"types":[]},"outputs":{"values":[)" + out +
         R"(],"types":[]},"attrs":[]})";
}

std::string storage(int number, int elements) {
  return "[1," + std::to_string(number) + ",0," + std::to_string(elements) + R"(,4,"cuda:0"])";
}

// A log of simrd with the operations of a trace; BACKWARD stands where the first gradient is made by an
// operation that does not say so by its name, as in DTR's own logs.
std::string simrd_log_of(const wire::Trace& trace) {
  std::string log;
  std::vector<bool> made(trace.tensors.size(), false);
  const auto name = [](std::uint32_t t) { return "t" + std::to_string(t); };
  const auto list = [&](const std::vector<std::uint32_t>& tensors) {
    std::string text;
    for (const std::uint32_t t : tensors) text += (text.empty() ? "\"" : ",\"") + name(t) + "\"";
    return text;
  };
  const auto memory = [&](std::uint32_t t) {
    return R"({"INSTRUCTION":"MEMORY","NAME":")" + name(t) + R"(","MEMORY":")" +
           std::to_string(trace.tensors[t].bytes) + "\"}\n";
  };
  bool backward = false;
  for (const wire::TraceOp& op : trace.ops) {
    for (const std::uint32_t t : op.inputs) {
      if (!made[t]) log += R"({"INSTRUCTION":"CONSTANT","NAME":")" + name(t) + "\"}\n" + memory(t);
      made[t] = true;
    }
    std::vector<std::uint32_t> results;
    std::copy_if(op.outputs.begin(), op.outputs.end(), std::back_inserter(results),
                 [&](std::uint32_t t) { return !made[t]; });
    const bool gradient = std::any_of(results.begin(), results.end(), [&](std::uint32_t t) {
      return trace.tensors[t].kind == TensorKind::gradient;
    });
    if (gradient && !backward && op.name.find("backward") == std::string::npos)
      log += R"({"INSTRUCTION":"ANNOTATE","ANNOTATION":"BACKWARD"})"
             "\n";
    backward = backward || gradient;
    log += R"({"INSTRUCTION":"CALL","NAME":")" + op.name + R"(","ARGS":[)" + list(op.inputs) +
           R"(],"RESULT":[)" + list(results) +
           R"(],"TIME":"1000"})"
           "\n";
    for (const std::uint32_t t : results) {
      log += memory(t) + R"({"INSTRUCTION":"ALIAS","NAME":")" + name(t) +
             R"(","ALIAS":"-1"})"
             "\n";
      made[t] = true;
    }
  }
  return log;
}

// Whether each operation makes a gradient.
std::vector<bool> makes_gradient(const wire::Trace& trace) {
  std::vector<bool> found;
  for (const wire::TraceOp& op : trace.ops) {
    found.push_back(std::any_of(op.outputs.begin(), op.outputs.end(), [&](std::uint32_t t) {
      return trace.tensors[t].kind == TensorKind::gradient &&
             std::find(op.inputs.begin(), op.inputs.end(), t) == op.inputs.end();
    }));
  }
  return found;
}

}  // namespace

// DTR's logs call the forward pass's max-pooling max_pool2d_backward; it reads no gradient.
TEST_CASE("An operation that is named backward and reads one tensor begins no backward pass") {
  const auto log = [](const char* args) {
    return import_simrd(log_head + call("conv", R"("x","w")", "a", 64, -1) +
                        call("max_pool2d_backward", "\"a\"", "p", 32, -1) +
                        call("nll_loss_backward", args, "g", 4, -1) + call("mm", R"("g","w")", "h", 8, -1));
  };
  const Result<Imported> trace = log(R"("p","a")");
  INFO(trace.error);
  REQUIRE(trace);
  CHECK(makes_gradient(trace->trace) == std::vector<bool>{false, false, true, true});
  CHECK(makes_gradient(log("\"p\"")->trace) == std::vector<bool>{false, false, false, false});
}

TEST_CASE("Backward begins in DTR's logs where the corrected traces have it") {
  for (const char* name : {"inceptionv4-64", "lstm-128", "resnet32-56", "transformer-10", "treelstm-6",
                           "tv_densenet121-84", "unet-6", "unroll_gan-512"}) {
    const auto text = planner::test::reference_data("dtr/" + std::string(name) + ".json.gz");
    if (!text) return;
    const auto trace = parse_trace(*text);
    REQUIRE(trace);
    const Result<Imported> imported = import_simrd(simrd_log_of(*trace));
    INFO(name << " " << imported.error);
    REQUIRE(imported);
    const std::vector<bool> ours = makes_gradient(imported->trace), theirs = makes_gradient(*trace);
    const auto differ = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
    CHECK(differ.first - ours.begin() == static_cast<std::ptrdiff_t>(trace->ops.size()));
  }
}

TEST_CASE("A log of simrd becomes storages, operations and kinds") {
  const Result<Imported> i = import_simrd(
      log_head + call("conv", R"("x","w")", "a", 64, -1) + call("view", "\"a\"", "b", 64, 0) +
      R"({"INSTRUCTION":"RELEASE","NAME":"x"})" + "\n" + R"({"INSTRUCTION":"COPY","DST":"c","SRC":"b"})" +
      "\n" + R"({"INSTRUCTION":"MUTATE","NAME":"relu_","ARGS":["c"],"MUTATE":[0],"TIME":"250"})" + "\n" +
      R"({"INSTRUCTION":"ANNOTATE","ANNOTATION":"BACKWARD"})" + "\n" +
      call("mm", R"("b","w")", "g", 100, -1) + call("nothing", "\"g\"", "e", 0, -1) +
      R"({"INSTRUCTION":"RELEASE","NAME":"unknown"})" + "\n");
  INFO(i.error);
  REQUIRE(i);
  const wire::Trace& t = i->trace;
  REQUIRE(t.tensors.size() == 4);
  CHECK((t.tensors[0].kind == TensorKind::weight && t.tensors[0].persistent && t.tensors[0].bytes == 100));
  CHECK((t.tensors[1].kind == TensorKind::input && !t.tensors[1].persistent));
  CHECK((t.tensors[2].kind == TensorKind::activation && t.tensors[2].bytes == 64));
  CHECK((t.tensors[3].kind == TensorKind::gradient && t.tensors[3].bytes == 100));
  REQUIRE(t.ops.size() == 5);
  CHECK((t.ops[0].name == "conv/0" && t.ops[0].time_us == 1.5));
  CHECK(t.ops[0].inputs == std::vector<std::uint32_t>{1, 0});
  CHECK((t.ops[1].outputs.empty() && t.ops[1].inputs == std::vector<std::uint32_t>{2}));
  CHECK((t.ops[2].inputs == t.ops[2].outputs && t.ops[2].outputs == std::vector<std::uint32_t>{2}));
  CHECK(t.ops[4].outputs.empty());
}

TEST_CASE("A name that is copied from another means its storage from then on") {
  const Result<Imported> i = import_simrd(log_head + R"({"INSTRUCTION":"COPY_FROM","DST":"x","SRC":"w"})" +
                                          "\n" + call("f", "\"x\"", "y", 8, -1));
  REQUIRE(i);
  CHECK(i->trace.ops[0].inputs == std::vector<std::uint32_t>{0});
  CHECK_FALSE(i->trace.tensors[1].persistent);  // nobody refers to what x was
}

TEST_CASE("Wrong logs are refused with the line") {
  CHECK(simrd_error("") == "line 7: the log has no CALL");
  CHECK(simrd_error("{") == "line 8: not valid JSON");
  CHECK(simrd_error("[]") == "line 8: not a JSON object");
  CHECK(simrd_error(call("f", "\"none\"", "y", 8, -1)) == "line 8: ARGS[0]: there is no tensor \"none\"");
  CHECK(simrd_error(call("f", "\"x\"", "x", 8, -1)) == "line 10: there is a tensor \"x\" already");
  CHECK(simrd_error(call("f", "\"x\"", "y", 8, 1)) == "line 10: ALIAS: there is no such argument");
  CHECK(simrd_error(call("f", "\"x\"", "y", -8, -1)).find("line 10: MEMORY: out of range") == 0);
  CHECK(simrd_error(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[],"RESULT":["r"],"TIME":"1"})") ==
        "line 8: the log ends before MEMORY");
  CHECK(simrd_error(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[],"RESULT":[],"TIME":"x"})") ==
        "line 8: TIME: expected nanoseconds");
  CHECK(simrd_error(R"({"INSTRUCTION":"MUTATE","NAME":"f","ARGS":["x"],"MUTATE":[1],"TIME":"1"})") ==
        "line 8: MUTATE: there is no argument 1");
  CHECK(simrd_error(R"({"INSTRUCTION":"DANCE"})").find("line 8: \"DANCE\" is no instruction") == 0);
}

// A stack overflow without the limit: what copies or prints a value calls itself for each level.
TEST_CASE("A log nested deeper than its limit is refused with the line") {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  const std::string deep = nested(400'000);
  const auto record = [](const std::string& fields) { return "{" + fields + "}"; };
  const std::string head = R"("INSTRUCTION":"MUTATE","NAME":"f","ARGS":["x"],)";
  CHECK(simrd_error(record(R"("INSTRUCTION":)" + deep)) == "line 8: nested deeper than 64");
  CHECK(simrd_error(record(head + R"("MUTATE":[0],"TIME":)" + deep)) == "line 8: nested deeper than 64");
  CHECK(simrd_error(record(head + R"("TIME":"1","MUTATE":)" + deep)) == "line 8: nested deeper than 64");
  CHECK(simrd_error(record(head + R"("MUTATE":[0],"TIME":")" + deep + "\"")) ==
        "line 8: TIME: expected nanoseconds");
  CHECK(simrd_error(record(head + R"("MUTATE":[0],"TIME":"1","other":)" + nested(63))).empty());
  CHECK(simrd_error(record(head + R"("MUTATE":[0],"TIME":"1","other":)" + nested(64))) ==
        "line 8: nested deeper than 64");
}

TEST_CASE("What was imported with the longest names can be read again") {
  const std::string longest(most_text_bytes, 'n');
  const Result<Imported> log = import_simrd(log_head + call(longest, "\"x\"", "y", 8, -1));
  REQUIRE(log);
  CHECK(log->trace.ops[0].name.ends_with("n/0"));
  CHECK(parse_trace(trace_json(log->trace)).error.empty());
  const Result<Imported> et_trace =
      import_execution_trace(et(node(2, 1, "a", "[1,3,0,4,4,\"" + longest + "\"]", "")));
  REQUIRE(et_trace);
  CHECK(parse_trace(trace_json(et_trace->trace)).error.empty());
}

TEST_CASE("Storages of an execution trace are followed by who made them") {
  // linear calls addmm, which makes storage 9; then 9 is freed unseen and used again by relu.
  const Result<Imported> i = import_execution_trace(
      et(node(2, 1, "linear", storage(3, 10), storage(9, 5)) + "," +
         node(3, 2, "addmm", storage(3, 10), storage(9, 5)) + "," +
         node(4, 1, "view", storage(9, 5), storage(9, 5)) + "," +
         node(5, 1, "relu", storage(3, 10), storage(9, 7)) + "," +
         node(6, 1, "sum", std::string("[") + storage(9, 7) + R"(,"x",[4]],true)", "")));
  INFO(i.error);
  REQUIRE(i);
  const wire::Trace& t = i->trace;
  REQUIRE(t.ops.size() == 4);  // linear only passes on what addmm made
  CHECK(t.ops[0].name == "addmm");
  REQUIRE(t.tensors.size() == 3);
  CHECK((t.tensors[0].bytes == 40 && t.tensors[0].persistent));
  CHECK((t.tensors[1].bytes == 20 && t.tensors[2].bytes == 28));
  CHECK(t.ops[1].outputs == std::vector<std::uint32_t>{1});
  CHECK(t.ops[2].outputs == std::vector<std::uint32_t>{2});
  CHECK(t.ops[3].inputs == std::vector<std::uint32_t>{2});
}

// Minutes where each caller copies what all below it gave: the test's time limit ends it.
TEST_CASE("A chain of a hundred thousand callers is followed") {
  std::string nodes;
  for (int id = 2; id < 100'002; ++id)
    nodes += (id > 2 ? "," : "") + node(id, id - 1, "f", "", storage(id, 1));
  const Result<Imported> i = import_execution_trace(et(nodes));
  REQUIRE(i);
  CHECK(i->trace.tensors.size() == 100'000);
  CHECK(i->trace.ops.size() == 100'000);
}

TEST_CASE("Wrong execution traces are refused with the place") {
  const auto error = [](const std::string& nodes) { return import_execution_trace(et(nodes)).error; };
  CHECK(error("") == "no operator of the execution trace has a tensor");
  CHECK(error("[]") == "nodes[0]: expected an object");
  CHECK(error(node(2, 1, "a", storage(1, 1), "") + "," + node(2, 1, "b", "", "")) ==
        "nodes: the id 2 occurs twice");
  CHECK(error(R"({"id":1,"name":"a","inputs":{},"outputs":{}})") ==
        "nodes[0].inputs: expected a list of values");
  CHECK(error(node(2, 1, "a", R"([1,1,0,9999999999999999,4,"cuda:0"])", ""))
            .find("nodes[0].inputs[0]: a tensor's size") == 0);
  CHECK(error(node(2, 1, "a", "", R"([1,7,17592186044416,17592186044416,64,"cpu"])")) ==
        "tensors[0].bytes: 2251799813685248 is over the limit of 1125899906842624");
  CHECK(import_execution_trace(et(node(2, 2, "self", storage(1, 1), ""))));
}

TEST_CASE("The execution traces of a ResNet and its reused storages are read") {
  const std::optional<std::string> text = planner::test::reference_data("kineto/resnet_et.json.gz");
  if (!text) return;
  REQUIRE(recognise(*text).value == TraceFormat::execution_trace);
  const Result<Imported> i = import_execution_trace(*text);
  INFO(i.error);
  REQUIRE(i);
  CHECK(i->trace.tensors.size() == 2716);
  CHECK(max_live_bytes(instance_of(i->trace).buffers) == 2'026'059'120);
}

TEST_CASE("Lifetimes are read, written and become a trace with the same overlaps") {
  const std::string csv = "id,lower,upper,size\n0,10,30,5\n1,20,40,7\n2,30,50,9\n";
  const Result<Instance> instance = parse_csv(csv);
  INFO(instance.error);
  REQUIRE(instance);
  CHECK(csv_of(*instance) == csv);
  const Imported i = trace_of(*instance);
  CHECK(i.trace.ops.size() == 4);
  CHECK_FALSE(i.trace.reads_known);
  CHECK_FALSE(i.trace.ops[0].recomputable);
  const Instance back = instance_of(i.trace);
  REQUIRE(back.buffers.size() == 3);
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      CHECK(overlap_in_time(back.buffers[a], back.buffers[b]) ==
            overlap_in_time(instance->buffers[a], instance->buffers[b]));
    }
  }
  const std::string aligned = "id,lower,upper,size,alignment\n0,0,1,5,64\n";
  CHECK(csv_of(*parse_csv(aligned)) == aligned);
  CHECK(parse_csv("size,upper,lower\r\n5,2,1\r\n")->buffers[0].upper == 2);
}

TEST_CASE("Wrong lifetimes are refused with the line") {
  const auto error = [](const std::string& rows) { return parse_csv("id,lower,upper,size\n" + rows).error; };
  CHECK(error("0,1,1,5") == "line 2: upper: \"1\" is no whole number from 2 to 4294967295");
  CHECK(error("0,0,1,5\n1,0,1") == "line 3: expected 4 cells");
  CHECK(error("0,0,1,-5").find("line 2: size: \"-5\" is no") == 0);
  CHECK(error("0,0,1,5x").find("line 2: size: \"5x\" is no") == 0);
  CHECK(error("0,0,1,99999999999999999999").find("line 2: size:") == 0);
  CHECK(parse_csv("id,lower,upper\n").error == "line 1: the column \"size\" is missing");
  CHECK(parse_csv("id,lower,upper,size,offset\n").error == "line 1: the column \"offset\" is unknown");
  CHECK(parse_csv("id,lower,upper,size,size\n").error == "line 1: the column \"size\" occurs twice");
  CHECK(parse_csv("id,lower,upper,size,alignment\n0,0,1,5,3\n").error ==
        "line 2: alignment: expected a power of two");
  CHECK(parse_csv("").error == "the file is empty");
}

TEST_CASE("A trace that does not know its reads is imported with a note") {
  wire::Trace trace{"n", "s", {}, {}, false};
  const Result<Imported> back = import_trace(trace_json(trace), TraceFormat::terrace);
  REQUIRE(back);
  CHECK(back->notes == std::vector<std::string>{reads_unknown_note});
  trace.reads_known = true;
  CHECK(import_trace(trace_json(trace), TraceFormat::terrace)->notes.empty());
}

TEST_CASE("Formats are told apart by their beginning") {
  CHECK(recognise(R"({"name":"x","format":"terrace-trace"})").value == TraceFormat::terrace);
  CHECK(recognise(R"({"schemaVersion":1,"traceEvents":[)").value == TraceFormat::kineto);
  CHECK(recognise(et("")).value == TraceFormat::execution_trace);
  CHECK(recognise(log_head).value == TraceFormat::simrd);
  CHECK(recognise("id,lower,upper,size\n").value == TraceFormat::csv);
  CHECK(recognise(std::string("\x08\x07\x12\x07pytorch")).value == TraceFormat::onnx);
  CHECK(recognise("").error == "the file is empty");
  CHECK(recognise("{}").error == "this JSON is neither a trace nor a profile that terrace can read");
  CHECK(recognise("{\"a\":").error.find("not valid JSON") == 0);
  CHECK_FALSE(recognise("PK\x03\x04"));
  CHECK_FALSE(recognise("\x1f\x8b"));
  CHECK_FALSE(recognise("hello"));
  for (const TraceFormat f : all_trace_formats) CHECK(trace_format(trace_format_name(f)) == f);
  CHECK_FALSE(trace_format("nonsense"));
  CHECK(import_trace("id,lower,upper,size\n0,0,1,5\n", TraceFormat::csv)->trace.tensors.size() == 1);
}

}  // namespace terrace::import
