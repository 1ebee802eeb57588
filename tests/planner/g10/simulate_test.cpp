// The simulator on small traces: figures that follow by hand, bounds that hold for every trace, refusals.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "tests/planner/g10/small_trace.h"

namespace terrace::planner {
namespace {

using test::machine_of_pages;
using test::op_of_ticks;
using test::tensor_of_pages;

constexpr std::uint64_t tick = 15599;  // cycles

Result<PageSchedule> base_uvm(const wire::Trace&, const G10Machine&) { return ok(PageSchedule{}); }
constexpr std::array all_policies = {base_uvm, plan_deepum_pages, plan_g10_pages};

wire::Trace two_ops() {
  wire::Trace trace;
  trace.tensors = {tensor_of_pages(100, true), tensor_of_pages(100)};
  trace.ops = {op_of_ticks(10, {0}, {1}), op_of_ticks(10, {1}, {0})};
  return trace;
}

TEST_CASE("A cold weight stalls its first operation, a warm one does not") {
  const auto report = simulate_g10(two_ops(), machine_of_pages(1000, 1000), {});
  REQUIRE(report);
  const auto ssd = static_cast<std::uint64_t>(100 * 4096 / 3.2e9 * 1.2e9);
  CHECK(report->iterations[0].cycles == tick * 20 + ssd);
  CHECK(report->iterations[0].traffic.ssd_to_gpu == 100 * test::page);
  CHECK(report->iterations[1].cycles == tick * 20);
  CHECK(report->iterations[1].traffic.ssd_to_gpu == 0);
  CHECK(report->reported == 1);
  CHECK(report->percent_of_ideal == Approx(100));
}

TEST_CASE("An operation ends with the last arrival where that comes late") {
  wire::Trace trace = two_ops();
  trace.ops[0].time_us = 1;
  const auto report = simulate_g10(trace, machine_of_pages(1000, 1000), {});
  REQUIRE(report);
  // 100 pages of 10 per tick: the tenth tick begins nine ticks after the first; the stall model says 153,600.
  CHECK(report->iterations[0].op_ends[0] == 153600 + 1200);
  G10Machine slow = machine_of_pages(1000, 1000);
  slow.ssd_gb_per_second = 3.4;  // still 10 pages per tick: the model is faster than the ticks now
  const auto late = simulate_g10(trace, slow, {});
  REQUIRE(late);
  CHECK(late->iterations[0].op_ends[0] == static_cast<std::uint64_t>(100 * 4096 / 3.4e9 * 1.2e9) + 1200);
}

TEST_CASE("No policy beats the ideal, ends are in order, and the second run is the same") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const wire::Trace trace = test::random_trace(seed);
    const auto machine = machine_of_pages(1300 + 30 * seed, 500 + 20 * seed);
    for (const auto policy : all_policies) {
      const auto schedule = policy(trace, machine);
      REQUIRE(schedule);
      const auto report = simulate_g10(trace, machine, *schedule);
      REQUIRE(report);
      CHECK(report->percent_of_ideal <= 100.0 + 1e-9);
      for (const G10Iteration& iteration : report->iterations) {
        CHECK(iteration.cycles >= report->ideal_cycles);
        REQUIRE(iteration.op_ends.size() == trace.ops.size());
        CHECK(std::is_sorted(iteration.op_ends.begin(), iteration.op_ends.end()));
      }
      const auto again = simulate_g10(trace, machine, *schedule);
      REQUIRE(again);
      CHECK(again->iterations[1].op_ends == report->iterations[1].op_ends);
    }
  }
}

TEST_CASE("In a GPU that holds everything nothing leaves it") {
  for (const auto policy : all_policies) {
    const wire::Trace trace = test::random_trace(3);
    const auto schedule = policy(trace, machine_of_pages(100000, 0));
    REQUIRE(schedule);
    const auto report = simulate_g10(trace, machine_of_pages(100000, 0), *schedule);
    REQUIRE(report);
    CHECK(report->iterations[1].traffic.gpu_to_ssd + report->iterations[1].traffic.gpu_to_host == 0);
    CHECK(report->iterations[1].cycles == report->ideal_cycles);
  }
}

TEST_CASE("Fault times lengthen the stall of the operation that they name") {
  const auto machine = machine_of_pages(1000, 1000);
  const std::vector<G10FaultTimes> times{{0, 2, 0}};
  const auto plain = simulate_g10(two_ops(), machine, {});
  const auto profiled = simulate_g10(two_ops(), machine, {}, times);
  REQUIRE(plain);
  REQUIRE(profiled);
  CHECK(profiled->iterations[0].cycles > plain->iterations[0].cycles);
}

TEST_CASE("Fault times are read by the trace's name, and what is malformed is refused by its line") {
  const std::string csv = "trace,operation,all,input\nA,7,2,1\nAB,8,1,0\nA,9,3,0";
  const auto times = parse_g10_fault_times(csv, "A");
  REQUIRE(times);
  REQUIRE(times->size() == 2);
  CHECK(((*times)[0].op == 7 && (*times)[0].all_seconds == 2 && (*times)[0].input_seconds == 1));
  CHECK((*times)[1].op == 9);
  CHECK(parse_g10_fault_times(csv, "C")->empty());
  for (const char* wrong : {"A", "A,", "A,1,2", "A,1,2,x", "A,1,2,3,4", "A,-1,2,3", "A,5000000000,2,3"}) {
    CHECK(parse_g10_fault_times(std::string("B,1,2,3\n") + wrong, "A").error.find("line 2: ") == 0);
  }
}

TEST_CASE("What cannot run is refused by name") {
  const auto why = [](const wire::Trace& trace, const G10Machine& machine,
                      std::vector<G10FaultTimes> times = {}) {
    const auto report = simulate_g10(trace, machine, {}, times);
    CHECK_FALSE(report);
    CHECK((!times.empty() || plan_g10_pages(trace, machine).error == report.error));
    CHECK((!times.empty() || plan_deepum_pages(trace, machine).error == report.error));
    return report.error;
  };
  const auto machine = machine_of_pages(1000, 1000);
  CHECK(why({}, machine).find("two operations") != std::string::npos);
  CHECK(why(two_ops(), machine_of_pages(150, 10)).find("operation 0 (op) needs 200 pages") !=
        std::string::npos);
  CHECK(why(two_ops(), machine, {{7, 1, 0}}).find("operation 7") != std::string::npos);
  wire::Trace trace = two_ops();
  trace.ops[1].time_us = 0;
  CHECK(why(trace, machine).find("operation 1") != std::string::npos);
  trace.ops[1].time_us = std::numeric_limits<double>::quiet_NaN();
  CHECK(why(trace, machine).find("operation 1") != std::string::npos);
  trace.ops[1].time_us = 1e300;
  CHECK(why(trace, machine).find("87 days") != std::string::npos);
  trace = two_ops();
  trace.ops[1].outputs = {9};
  CHECK(why(trace, machine).find("lacks") != std::string::npos);
  trace = two_ops();
  trace.tensors[1].bytes = std::numeric_limits<std::uint64_t>::max();
  CHECK(why(trace, machine).find("more pages") != std::string::npos);
}

TEST_CASE("Machines that make no sense are refused") {
  const auto refuses = [](auto change) {
    G10Machine machine = machine_of_pages(1000, 1000);
    change(machine);
    const auto schedule = plan_deepum_pages(two_ops(), machine);
    return !schedule && schedule.error == simulate_g10(two_ops(), machine, {}).error;
  };
  CHECK(refuses([](G10Machine& m) { m.page_bytes = 0; }));
  CHECK(refuses([](G10Machine& m) { m.pages_per_tick = 0; }));
  CHECK(refuses([](G10Machine& m) { m.pages_per_tick = 4; }));
  CHECK(refuses([](G10Machine& m) { m.link_gb_per_second = 0; }));
  CHECK(refuses([](G10Machine& m) { m.ssd_gb_per_second = 20; }));
  CHECK(refuses([](G10Machine& m) { m.gpu_ghz = std::numeric_limits<double>::quiet_NaN(); }));
  CHECK(refuses([](G10Machine& m) { m.plan_margin = -1; }));
  CHECK_FALSE(refuses([](G10Machine& m) { m.deepum_ahead = 4000000000U; }));
}

}  // namespace
}  // namespace terrace::planner
