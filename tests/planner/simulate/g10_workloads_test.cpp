// G10's five default workloads: sums and peaks as its artifact has them (../shared/data/g10/summary.csv), and
// every swap policy judged on them.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/machines.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

using test::reference_data;

struct Workload {
  const char* name;
  const char* row;   // how its line of summary.csv begins
  double ssd_bound;  // of its slowdown without host memory, rounded down
};

const Workload workloads[] = {{"BERT_Base-256", "BERT_Base,256,", 1},
                              {"VIT-1280", "VIT,1280,", 1.71},
                              {"Inceptionv3-1536", "Inceptionv3,1536,", 1.45},
                              {"ResNet152-1280", "ResNet152,1280,", 1.49},
                              {"SENet154-1024", "SENet154,1024,", 1.58}};

std::vector<std::string> columns(const std::string& summary, const char* row) {
  std::istringstream lines(summary);
  std::vector<std::string> cells;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(row, 0) != 0) continue;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  }
  return cells;
}

std::optional<wire::Trace> workload(const std::string& name) {
  const auto text = reference_data("g10/" + name + ".json.gz");
  if (!text) return std::nullopt;
  Result<wire::Trace> trace = parse_trace(*text);
  INFO(trace.error);
  REQUIRE(trace);
  return *trace;
}

std::string seconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", us / 1e6);
  return text;
}

}  // namespace

TEST_CASE("The sums of G10's workloads are the artifact's, to the last digit given") {
  const auto summary = reference_data("g10/summary.csv");
  if (!summary) return;
  for (const Workload& w : workloads) {
    const auto trace = workload(w.name);
    REQUIRE(trace);
    const std::vector<std::string> row = columns(*summary, w.row);
    REQUIRE(row.size() == 11);
    INFO(w.name);
    const LowerBounds b = lower_bounds(*trace, *built_in_machine("a100-g10"));
    CHECK(std::llround(b.compute_us * 1200) == std::stoll(row[4]));  // cycles at 1.2 GHz
    CHECK(seconds(b.compute_us).substr(0, row[5].size()) == row[5]);
    CHECK(b.max_live_bytes == std::stoull(row[6]));
    CHECK(trace->ops.size() == std::stoull(row[2]));
    CHECK(static_cast<double>(b.largest_op_bytes) / (1 << 30) == Approx(std::stod(row[9])).margin(0.005));
  }
}

TEST_CASE("Without limits the simulator takes exactly that time") {
  for (const Workload& w : workloads) {
    const auto trace = workload(w.name);
    if (!trace) return;
    Machine machine = *built_in_machine("a100-g10");
    machine.tiers[0].capacity_bytes = unlimited_bytes;
    const auto r = simulate(*trace, machine, {});
    REQUIRE(r);
    CHECK(r->total_us == r->bounds.compute_us);
    CHECK(r->tier_peak_bytes[0] == r->bounds.max_live_bytes);
  }
}

// Fewer instants than usual, so that the tests take seconds.
StepBound quick_bound(const wire::Trace& trace, const Machine& machine, bool recomputes = false) {
  StepBoundOptions options;
  options.most_instants = recomputes ? 16 : 64;
  options.recomputes = recomputes;
  return step_bound(trace, machine, options);
}

// A step that recomputes may be faster than any that only moves.
double bound_us_of(const SimulationReport& report, const wire::Trace& trace, const Machine& machine,
                   const StepBound& moving) {
  return report.recompute_us > 0 ? quick_bound(trace, machine, true).step_us : moving.step_us;
}

// The searching policies' plans are not judged by their quality here.
const SwapControl short_search{0, 0.02, {}};

TEST_CASE("Without host memory the bound is well above computing, and no plan beats it") {
  const Machine machine = *built_in_machine("a100-ssd");
  for (const Workload& w : workloads) {
    const auto trace = workload(w.name);
    if (!trace) return;
    const StepBound bound = quick_bound(*trace, machine);
    const LowerBounds plain = lower_bounds(*trace, machine);
    INFO(w.name);
    CHECK(bound.finished);
    CHECK(bound.step_us >= w.ssd_bound * plain.compute_us);
    CHECK(bound.step_us >= plain.step_us);
    for (const SwapPolicy& policy : swap_policies()) {
      const auto schedule = policy.plan(*trace, machine, short_search);
      if (!schedule) continue;
      const auto r =
          simulate(*trace, machine, *schedule, {schedule->victims, StallRule::strict, 2, false, 0});
      INFO(policy.name);
      if (r) CHECK(r->total_us >= bound_us_of(*r, *trace, machine, bound) * (1 - 1e-9));
    }
  }
}

TEST_CASE("Every swap policy's plan on G10's workloads passes the judge, and no bound exceeds it") {
  const Machine machine = *built_in_machine("a100-g10");
  for (const Workload& w : workloads) {
    const auto trace = workload(w.name);
    if (!trace) return;
    const StepBound bound = quick_bound(*trace, machine);
    for (const SwapPolicy& policy : swap_policies()) {
      const auto schedule = policy.plan(*trace, machine, short_search);
      INFO(w.name << " " << policy.name << " " << schedule.error);
      if (!schedule) continue;  // refuses what it cannot do
      const auto r = simulate(*trace, machine, *schedule, {schedule->victims, StallRule::strict, 2, true, 0});
      if (!r) {
        CHECK(schedule->victims == Victims::none);
        continue;
      }
      CHECK_THAT(check_timeline(*trace, machine, *r), Catch::Equals(""));
      CHECK(r->total_us >= bound_us_of(*r, *trace, machine, bound) * (1 - 1e-9));
    }
  }
}

}  // namespace terrace::planner
