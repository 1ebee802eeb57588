// Merging what an operation may write over: when, when not, and what it saves.
#include "daemon/planner/reuse/frameworks/in_place.h"

#include <catch2/catch.hpp>

#include "daemon/planner/reuse/families.h"

namespace terrace::planner {
namespace {

wire::TraceTensor tensor(std::uint64_t bytes) { return {0, bytes, {}, false, {}, {}, {}}; }

wire::TraceOp op(const char* name, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs) {
  return {name, 1, std::move(inputs), std::move(outputs), 0, {}, true};
}

bool merged(const InPlace& plan, std::uint32_t a, std::uint32_t b) {
  return plan.buffer_of[a] == plan.buffer_of[b];
}

}  // namespace

TEST_CASE("Elementwise operators are told by their names, others are not") {
  for (const char* name :
       {"aten::relu", "aten::relu_", "ReLU", "conv1/relu/3", "aten::threshold_backward", "mul/0"})
    CHECK(is_elementwise(op(name, {}, {})));
  for (const char* name : {"aten::mm", "conv1/0", "aten::softmax", "", "17/4", "relu/conv", "reluctant", "_"})
    CHECK_FALSE(is_elementwise(op(name, {}, {})));
}

TEST_CASE("A chain of elementwise operations is one buffer with one life") {
  wire::Trace trace;
  trace.tensors = {tensor(8), tensor(8), tensor(8), tensor(8)};
  trace.ops = {op("conv", {}, {0}), op("relu", {0}, {1}), op("tanh", {1}, {2}), op("conv", {2}, {3})};
  const InPlace plan = in_place_instance_of(trace);
  REQUIRE(plan.instance.buffers.size() == 2);
  CHECK(plan.buffer_of == std::vector<std::uint32_t>{0, 0, 0, 1});
  const Buffer& chain = plan.instance.buffers[0];
  CHECK((chain.bytes == 8 && chain.lower == 0 && chain.upper == 4 && chain.tensor == 0));
  CHECK(plan.instance.trace == nullptr);
  CHECK(max_live_bytes(plan.instance.buffers) == 16);
  CHECK(max_live_bytes(instance_of(trace).buffers) == 16);  // relu alone holds two as well
}

TEST_CASE("Writing over an input lowers the bound where an elementwise operation is the peak") {
  wire::Trace trace;
  trace.tensors = {tensor(2), tensor(100), tensor(100), tensor(2)};
  trace.ops = {op("conv", {}, {0}), op("conv", {0}, {1}), op("relu", {1}, {2}), op("conv", {2}, {3})};
  CHECK(max_live_bytes(instance_of(trace).buffers) == 200);
  const InPlace plan = in_place_instance_of(trace);
  CHECK(max_live_bytes(plan.instance.buffers) == 102);
  for (const ReusePolicy& p : framework_policies()) {
    const Result<Placement> placement = p.place(plan.instance, {});
    if (std::string(p.name) == "parallel_safe") {
      CHECK_FALSE(placement);  // a merged buffer has no single producer
      continue;
    }
    REQUIRE(placement);
    CHECK(check_placement(plan.instance, *placement).empty());
  }
}

TEST_CASE("Nothing is written over that is read again, elsewhere or twice") {
  wire::Trace trace;
  trace.tensors = {tensor(8), tensor(8), tensor(8), tensor(8), tensor(8)};
  trace.ops = {op("conv", {}, {0}), op("relu", {0}, {1}), op("add", {0, 1}, {2}), op("mul", {2, 2}, {3}),
               op("neg", {3}, {4})};
  const InPlace plan = in_place_instance_of(trace);
  CHECK_FALSE(merged(plan, 0, 1));
  CHECK(merged(plan, 0, 2));  // the last use of both; the first input in order is taken
  CHECK_FALSE(merged(plan, 1, 2));
  CHECK_FALSE(merged(plan, 2, 3));
  CHECK(merged(plan, 3, 4));
}

TEST_CASE("Nothing is written over that is an input, a weight, of another size or of another type") {
  wire::Trace trace;
  trace.tensors = {tensor(8), tensor(8), tensor(8), tensor(8), tensor(8), tensor(4), tensor(4)};
  trace.tensors[1].persistent = true;
  trace.tensors[4].dtype = "float32";
  trace.tensors[3].dtype = "int64";
  trace.ops = {op("relu", {0}, {2}), op("relu", {1}, {3}), op("relu", {3}, {4}), op("relu", {4}, {5}),
               op("conv", {5}, {6})};
  const InPlace plan = in_place_instance_of(trace);
  CHECK(plan.instance.buffers.size() == 7);
}

TEST_CASE("Each output takes one input, each input goes to one output") {
  wire::Trace trace;
  trace.tensors = {tensor(8), tensor(8), tensor(8), tensor(8)};
  trace.ops = {op("conv", {}, {0, 1}), op("add", {0, 1}, {2, 3})};
  const InPlace plan = in_place_instance_of(trace);
  CHECK(plan.buffer_of == std::vector<std::uint32_t>{0, 1, 0, 1});
}

TEST_CASE(
    "An update that the trace has in place already is left alone, and the caller may say what overwrites") {
  wire::Trace trace;
  trace.tensors = {tensor(8), tensor(8)};
  trace.ops = {op("conv", {}, {0}), op("add_", {0}, {0}), op("my_kernel", {0}, {1}), op("conv", {1}, {})};
  CHECK_FALSE(merged(in_place_instance_of(trace), 0, 1));
  const auto mine = [](const wire::TraceOp& o) { return o.name == "my_kernel"; };
  const InPlace plan = in_place_instance_of(trace, 64, mine);
  CHECK(merged(plan, 0, 1));
  CHECK(plan.instance.buffers[0].alignment == 64);
}

TEST_CASE("A tensor that nothing names has no buffer, and workspaces stay as they are") {
  wire::Trace trace;
  trace.tensors = {tensor(8), tensor(8)};
  trace.ops = {op("conv", {}, {1})};
  trace.ops[0].workspace_bytes = 5;
  const InPlace plan = in_place_instance_of(trace);
  CHECK(plan.buffer_of == std::vector<std::uint32_t>{no_tensor, 0});
  REQUIRE(plan.instance.buffers.size() == 2);
  CHECK((plan.instance.buffers[1].bytes == 5 && plan.instance.buffers[1].tensor == no_tensor));
}

}  // namespace terrace::planner
