// Lives as the log says, times by correlation, and hostile profiles.
#include <catch2/catch.hpp>

#include "tests/planner/reference_data.h"
#include "tools/import/import.h"

namespace terrace::import {

using planner::Buffer;
using planner::Instance;
using planner::instance_of;
using planner::max_live_bytes;

namespace {

std::string profile(const std::string& events) {
  return R"({"traceName":"t","traceEvents":[)" + events + "]}";
}

std::string op(const std::string& name, int ts, int dur) {
  return R"({"ph":"X","cat":"cpu_op","pid":1,"tid":1,"name":")" + name + R"(","ts":)" + std::to_string(ts) +
         R"(,"dur":)" + std::to_string(dur) + "},";
}

std::string memory(int ts, int address, int bytes, int total, int device = 1) {
  return R"({"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":)" +
         std::to_string(ts) + R"(,"args":{"Device Type":)" + std::to_string(device) +
         R"(,"Device Id":0,"Addr":)" + std::to_string(address) + R"(,"Bytes":)" + std::to_string(bytes) +
         R"(,"Total Allocated":)" + std::to_string(total) + R"(,"Ev Idx":)" + std::to_string(ts) + "}}";
}

std::string kernel(int launched, int dur, int correlation) {
  const std::string c = std::to_string(correlation);
  return R"({"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":)" +
         std::to_string(launched) + R"(,"dur":1,"args":{"correlation":)" + c +
         R"(}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":9,"dur":)" + std::to_string(dur) +
         R"(,"args":{"correlation":)" + c + "}},";
}

Imported imported(const std::string& events) {
  Result<Imported> result = import_kineto(profile(events));
  INFO(result.error);
  REQUIRE(result);
  return *result;
}

std::string error_in_events(const std::string& events) { return import_kineto(profile(events)).error; }

}  // namespace

TEST_CASE("An operator is cut where an allocation follows a release") {
  // conv: +A +B -A +C, relu: +D -B; 100 bytes lay there before.
  const Imported i =
      imported(op("conv", 10, 10) + op("relu", 30, 10) + memory(11, 1, 8, 108) + "," +
               memory(12, 2, 16, 124) + "," + memory(13, 1, -8, 116) + "," + memory(14, 1, 32, 148) + "," +
               memory(31, 4, 64, 212) + "," + memory(32, 2, -16, 196));
  const wire::Trace& t = i.trace;
  CHECK_FALSE(t.reads_known);
  REQUIRE(t.ops.size() == 3);
  CHECK((t.ops[0].name == "conv" && t.ops[1].name == "conv" && t.ops[2].name == "relu"));
  CHECK(t.ops[0].outputs == std::vector<std::uint32_t>{0, 1});
  CHECK(t.ops[0].inputs.empty());
  CHECK(t.ops[1].outputs == std::vector<std::uint32_t>{2});
  CHECK(t.ops[2].outputs == std::vector<std::uint32_t>{3});
  CHECK(t.ops[2].inputs == std::vector<std::uint32_t>{1, 2, 3});  // B is released there; C and D never are
  REQUIRE(t.tensors.size() == 5);
  CHECK((t.tensors[4].persistent && t.tensors[4].bytes == 100));
  CHECK(max_live_bytes(instance_of(t).buffers) == 212);
  CHECK(t.ops[0].time_us == 10);  // no kernels: the operator's own time, once
  CHECK(t.ops[1].time_us == 0);
}

TEST_CASE("Kernels count for the innermost operator that launched them") {
  const Imported i = imported(op("outer", 10, 30) + op("inner", 20, 5) + kernel(21, 700, 1) +
                              kernel(30, 50, 2) + kernel(99, 3, 3) + memory(22, 1, 8, 8));
  REQUIRE(i.trace.ops.size() == 2);
  CHECK((i.trace.ops[0].name == "outer" && i.trace.ops[0].time_us == 50));
  CHECK((i.trace.ops[1].name == "inner" && i.trace.ops[1].time_us == 700));
}

TEST_CASE("A release without an allocation was there from the beginning") {
  const Imported i = imported(op("a", 0, 9) + memory(1, 5, -40, 60) + "," + memory(2, 6, 8, 68));
  REQUIRE(i.trace.tensors.size() == 3);
  CHECK(i.trace.tensors[0].bytes == 40);
  CHECK((i.trace.tensors[2].persistent && i.trace.tensors[2].bytes == 60));
  CHECK(max_live_bytes(instance_of(i.trace).buffers) == 100);
}

TEST_CASE("The device that allocates most is the one that counts") {
  const Imported i = imported(memory(1, 5, 10, 10, 0) + "," + memory(2, 5, 500, 500, 1));
  CHECK(i.trace.source == "Kineto profile, CUDA 0");
  CHECK(max_live_bytes(instance_of(i.trace).buffers) == 500);
}

TEST_CASE("Wrong profiles are refused with the place") {
  CHECK(error_in_events(op("a", 0, 9) + "{}").find("no [memory] events") != std::string::npos);
  CHECK(error_in_events("7") == "traceEvents[0]: expected an object");
  CHECK(error_in_events(R"({"ph":"i","name":"[memory]","ts":1})") ==
        "traceEvents[0].args: expected an object");
  CHECK(error_in_events(
            R"({"ph":"i","name":"[memory]","ts":1,"args":{"Device Type":0,"Addr":1,"Bytes":"x"}})") ==
        "traceEvents[0]: args.Bytes: expected a number of bytes");
  CHECK(error_in_events(R"({"ph":"X","cat":"cpu_op","name":"a","ts":-1,"dur":1})") ==
        "traceEvents[0].ts: expected a number that is not negative");
  CHECK(error_in_events(memory(1, 1, 0, 0)) == "the profile's memory events are all of 0 bytes");
}

TEST_CASE("In a profile of 28,010 memory events every allocation finds its release") {
  const std::optional<std::string> text = planner::test::reference_data("kineto/df_index_resolver.json.gz");
  if (!text) return;
  REQUIRE(recognise(*text).value == TraceFormat::kineto);
  const Result<Imported> i = import_kineto(*text);
  INFO(i.error);
  REQUIRE(i);
  CHECK(i->trace.tensors.size() == 13'385 + 1);
  CHECK(i->notes[2].find("13385 allocations were matched to their releases, 0 releases") == 0);
  // The log's own figure of the most that was allocated at once ("Total Allocated").
  const Instance instance = instance_of(i->trace);
  CHECK(max_live_bytes(instance.buffers) == 6'629'508'096);
  std::vector<Buffer> of_the_step;
  for (const Buffer& b : instance.buffers) {
    if (!i->trace.tensors[b.tensor].persistent) of_the_step.push_back(b);
  }
  CHECK(max_live_bytes(of_the_step) == 2'532'893'696);
}

TEST_CASE("Kernels that together take longer than a trace can say are refused") {
  std::string all;
  for (int i = 0; i < 5'001; ++i) all += kernel(1, 2'000'000'000, 1);
  CHECK(error_in_events(op("o", 0, 10) + all + memory(2, 1, 8, 8))
            .find("ops[0].time_us: 10002000000000.0 is over the limit of 10000000000000.0") == 0);
}

// Minutes where each event walks through all operators around it: the test's time limit ends it.
TEST_CASE("A hundred thousand events after as many nested operators are put into the outermost") {
  constexpr int levels = 100'000;
  std::string events = op("outer", 0, 10 * levels);
  for (int i = 1; i < levels; ++i) events += op("o", i, 2 * levels - 2 * i);
  for (int i = 0; i < levels; ++i) events += (i > 0 ? "," : "") + memory(3 * levels + i, 1 + i, 8, 0);
  const Imported i = imported(events);
  CHECK(i.trace.tensors.size() == levels);
  CHECK(i.trace.ops.back().name == "outer");
  CHECK(i.trace.ops.back().outputs.size() == levels);
}

}  // namespace terrace::import
