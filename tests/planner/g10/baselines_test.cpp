// The published figures of G10's artifact: ideal times, Base UVM, DeepUM+ and G10 on its five default
// workloads.
//
// Times of each iteration and bytes over each way are compared to the digit wherever the trace decides them.
// Where pages fault in the order of a hash set of addresses, the trace does not: Base UVM on ResNet152 and
// DeepUM+ differ.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/planner/g10/g10.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

using nlohmann::json;

std::vector<G10FaultTimes> fault_times(const std::string& trace) {
  const auto times = parse_g10_fault_times(test::fixture("g10_fault_seconds.csv"), trace);
  INFO(times.error);
  REQUIRE(times);
  return *times;
}

void check_exact(const G10Report& report, const json& figures) {
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(report.iterations[i].cycles == figures["iter_cycles"][i].get<std::uint64_t>());
  CHECK(report.reported == figures["reported_iter"].get<std::uint32_t>());
  const G10Traffic& traffic = report.iterations[report.reported].traffic;
  const json& bytes = figures["bytes"];
  CHECK(traffic.ssd_to_gpu == bytes["ssd_to_gpu"].get<std::uint64_t>());
  CHECK(traffic.host_to_gpu == bytes["host_to_gpu"].get<std::uint64_t>());
  CHECK(traffic.gpu_to_ssd == bytes["gpu_to_ssd"].get<std::uint64_t>());
  CHECK(traffic.gpu_to_host == bytes["gpu_to_host"].get<std::uint64_t>());
}

void check_published(const G10Report& report, const json& figures, double share) {
  const auto ours = static_cast<double>(report.iterations[report.reported].cycles);
  const auto published = figures["example_results_cycles"].get<double>();
  CHECK(std::abs(ours - published) <= share * published);
}

struct Workload {
  const char* name;
  bool uvm_exact;
  bool deepum_exact;
};

void check_workload(const Workload& expected) {
  const std::string name = expected.name;
  const auto text = test::reference_data("g10/" + name + ".json.gz");
  const auto published = test::reference_data("g10/BASELINES.json");
  if (!text || !published) return;
  const auto trace = parse_trace(*text);
  REQUIRE(trace);
  const json figures = json::parse(*published)["workloads"][name];
  const auto times = fault_times(name);
  const auto run = [&](const Result<PageSchedule>& schedule, const char* key, bool exact, double share) {
    INFO(name << ", " << key);
    REQUIRE(schedule);
    const auto report = simulate_g10(*trace, {}, *schedule, times);
    REQUIRE(report);
    CHECK(report->ideal_cycles == figures["ideal_cycles"].get<std::uint64_t>());
    const json& policy_figures = figures["policies"][key];
    if (exact) check_exact(*report, policy_figures);
    check_published(*report, policy_figures, exact ? 0 : share);
  };
  run(plan_g10_pages(*trace, {}), "G10", true, 0);
  run(ok(PageSchedule{}), "Base-UVM", expected.uvm_exact, 0.002);
  run(plan_deepum_pages(*trace, {}), "DeepUM+", expected.deepum_exact, 0.003);
}

TEST_CASE("BERT_Base-256 as published") { check_workload({"BERT_Base-256", true, false}); }
TEST_CASE("VIT-1280 as published") { check_workload({"VIT-1280", true, true}); }
TEST_CASE("Inceptionv3-1536 as published") { check_workload({"Inceptionv3-1536", true, false}); }
TEST_CASE("ResNet152-1280 as published") { check_workload({"ResNet152-1280", false, false}); }
TEST_CASE("SENet154-1024 as published") { check_workload({"SENet154-1024", true, false}); }

// The log of the artifact's first three kernels, from a cold start.
TEST_CASE("The first kernels of Inceptionv3-1536 end as logged") {
  const auto text = test::reference_data("g10/Inceptionv3-1536.json.gz");
  if (!text) return;
  const auto trace = parse_trace(*text);
  REQUIRE(trace);
  const auto schedule = plan_deepum_pages(*trace, {});
  REQUIRE(schedule);
  const auto report = simulate_g10(*trace, {}, *schedule, fault_times("Inceptionv3-1536"));
  REQUIRE(report);
  const auto& ends = report->iterations[0].op_ends;
  CHECK(ends[0] == 834253432);
  CHECK(ends[1] - ends[0] == 1960163965);
  CHECK(ends[2] - ends[1] == 965122465);
}

}  // namespace
}  // namespace terrace::planner
