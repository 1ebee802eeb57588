// From a trace to a step: versions, constants, what is kept.
#include "daemon/planner/recompute/step.h"

#include <catch2/catch.hpp>

#include "tests/planner/recompute/random_steps.h"

namespace terrace::planner::recompute {
namespace {

using wire::TensorKind;
using wire::Trace;
using Indices = std::vector<std::uint32_t>;

// weight 0, input 1; conv makes 2, relu changes 2 in place, a view looks at it, loss reads 2 and makes 3.
Trace small_trace() {
  Trace trace;
  trace.tensors = {{0, 40, TensorKind::weight, true, {}, {}, {}},
                   {1, 10, TensorKind::input, false, {}, {}, {}},
                   {2, 20, TensorKind::activation, false, {}, {}, {}},
                   {3, 4, TensorKind::activation, false, {}, {}, {}}};
  trace.ops = {{"conv", 1.5, {0, 1}, {2}, 7, {}, true},
               {"relu_", 0.25, {2}, {2}, 0, {}, true},
               {"view", 0.001, {2}, {}, 0, {}, true},
               {"loss", 1, {2, 2}, {3}, 0, {}, true}};
  return trace;
}

TEST_CASE("An update in place makes a new content and reads the old one") {
  const auto step = step_of(small_trace());
  REQUIRE(step);
  REQUIRE(step->storages.size() == 5);
  CHECK(step->operations[0].reads == Indices{0, 1});
  CHECK(step->operations[0].makes == Indices{2});
  CHECK(step->operations[0].workspace_bytes == 7);
  CHECK(step->operations[1].reads == Indices{2});
  CHECK(step->operations[1].makes == Indices{3});
  CHECK(step->operations[2].makes.empty());
  CHECK(step->operations[3].reads == Indices{3});
  CHECK(step->storages[3].bytes == 20);
  CHECK(step->storages[3].readers == Indices{2, 3});
  CHECK(step->cost_ns == 2751);
}

TEST_CASE("Constants have no maker, and what nothing is made from is kept") {
  const auto step = step_of(small_trace());
  REQUIRE(step);
  CHECK(step->storages[0].constant());
  CHECK(step->storages[1].constant());
  CHECK(step->constant_bytes == 50);
  CHECK_FALSE(step->storages[2].kept);
  CHECK_FALSE(step->storages[3].kept);
  CHECK(step->storages[4].kept);
  CHECK_FALSE(step_of(small_trace(), false)->storages[4].kept);
}

TEST_CASE("What only a view reads is kept, and so is the last content of a persistent tensor") {
  Trace trace = small_trace();
  trace.ops.push_back({"sgd_", 1, {3, 0}, {0}, 0, {}, true});
  trace.ops.push_back({"norm", 1, {0}, {1}, 0, {}, true});
  trace.ops.push_back({"view", 1, {1}, {}, 0, {}, true});
  const auto step = step_of(trace);
  REQUIRE(step);
  const std::uint32_t updated = step->operations[4].makes.front();
  CHECK(step->storages[updated].kept);
  CHECK_FALSE(step->storages[step->operations[3].makes.front()].kept);
  CHECK(step->storages[step->operations[5].makes.front()].kept);
}

TEST_CASE("What cannot be made again is kept") {
  Trace trace = small_trace();
  trace.ops[0].recomputable = false;
  const auto step = step_of(trace);
  REQUIRE(step);
  CHECK(step->storages[2].kept);
  CHECK_FALSE(step->storages[3].kept);
}

TEST_CASE("A trace without reads is refused") {
  Trace trace = small_trace();
  trace.reads_known = false;
  const auto step = step_of(trace);
  CHECK_FALSE(step);
  CHECK(step.error == "the trace does not say what operations read");
}

TEST_CASE("The peak counts both contents of an update in place, the bottleneck one operation") {
  const auto step = step_of(small_trace());
  REQUIRE(step);
  CHECK(peak_bytes_of(*step) == 50 + 20 + 20);
  CHECK(least_bytes_of(*step) == 50 + 40);
  const Step chain = test::unit_chain(4);
  CHECK(peak_bytes_of(chain) == 6);  // four outputs, a gradient read and one made
  CHECK(least_bytes_of(chain) == 4);
}

}  // namespace
}  // namespace terrace::planner::recompute
