// G10's own simulator, rebuilt from its description: beside the times that its artifact gives for the same
// traces, and with every other policy's plan under the same rules.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "daemon/planner/g10/g10.h"
#include "daemon/planner/simulate/machines.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/trace_json.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/parts.h"
#include "tools/cli/plan/plan_load.h"

namespace terrace::bench {
namespace {

using planner::G10FaultTimes;
using planner::G10Report;
using planner::PageSchedule;

constexpr const char* g10_times_title =
    "G10's page-level simulator: our rebuilding of it beside its published times";
constexpr const char* g10_policies_title = "Every swap policy's plan under G10's page-level rules";
// What the order in which pages of a hash set fault, which the traces do not tell, can change.
constexpr double most_apart_from_published = 0.003;

struct Policy {
  const char* published;  // in BASELINES.json
  Result<PageSchedule> (*plan)(const wire::Trace&, const planner::G10Machine&);
};
constexpr Policy published_policies[] = {
    {"Base-UVM", [](const auto&, const auto&) { return ok(PageSchedule{}); }},
    {"DeepUM+", planner::plan_deepum_pages},
    {"G10", planner::plan_g10_pages}};

struct Workload {
  std::string name;
  wire::Trace trace;
  std::vector<G10FaultTimes> fault_times;
};

// Kernel times under page faults, of the repository's fixtures; ends the program where they are damaged.
std::vector<G10FaultTimes> fault_times_of(const std::string& name) {
  const auto text = cli::load_text(std::string(TERRACE_FIXTURES) + "/g10_fault_seconds.csv");
  const auto times = text.result ? planner::parse_g10_fault_times(*text.result, name)
                                 : refused<std::vector<G10FaultTimes>>(text.result.error);
  if (times) return *times;
  std::fprintf(stderr, "bench: g10_fault_seconds.csv: %s\n", times.error.c_str());
  std::exit(1);
}

std::optional<Workload> workload_of(const PlannerOptions& options, const std::string& name) {
  const auto file = data_file(options, "g10/" + name + ".json.gz");
  auto trace = file ? planner::parse_trace(*file) : Result<wire::Trace>();
  if (!trace) return std::nullopt;
  return Workload{name, std::move(*trace), fault_times_of(name)};
}

double reported_us(const G10Report& report) {
  return static_cast<double>(report.iterations[report.reported].cycles) /
         (1e3 * planner::G10Machine{}.gpu_ghz);
}

// The repository's own figure, which for one of them (DeepUM+ on Inceptionv3) is not what its code gives.
double published_us(const nlohmann::json& figures) {
  return figures.at("example_results_cycles").get<double>() / (1e3 * planner::G10Machine{}.gpu_ghz);
}

Result<G10Report> simulated(const Workload& workload, const Result<PageSchedule>& schedule) {
  if (!schedule) return refused<G10Report>(schedule.error);
  return planner::simulate_g10(workload.trace, {}, *schedule, workload.fault_times);
}

Json row_of(const Workload& workload, const Policy& policy, double published_us) {
  Json row{{"workload", workload.name}, {"policy", policy.published}, {"published_s", published_us / 1e6}};
  const double start = now_s();
  const auto report = simulated(workload, policy.plan(workload.trace, {}));
  row["seconds"] = now_s() - start;
  row["met"] = false;
  if (!report) {
    row["note"] = report.error;
    return row;
  }
  const double ours_us = reported_us(*report);
  row["ours_s"] = ours_us / 1e6;
  row["apart"] = ours_us / published_us - 1;
  row["met"] = std::abs(ours_us / published_us - 1) <= most_apart_from_published;
  return row;
}

Json policy_row(const Workload& workload, const planner::SwapPolicy& policy) {
  Json row{{"workload", workload.name}, {"policy", policy.name}};
  const planner::Machine tiers = *planner::built_in_machine("a100-g10");
  const auto schedule = policy.plan(workload.trace, tiers);
  const auto report = schedule
                          ? simulated(workload, planner::page_schedule(workload.trace, tiers, *schedule, {}))
                          : refused<G10Report>(schedule.error);
  if (!report) {
    row["note"] = report.error;
    return row;
  }
  row["seconds"] = reported_us(*report) / 1e6;
  row["slowdown"] = 100 / report->percent_of_ideal;
  return row;
}

}  // namespace

Json measure_g10_times(const PlannerOptions& options) {
  const auto text = data_file(options, "g10/BASELINES.json");
  if (!text) return skipped(g10_times_title, "no g10/BASELINES.json in the data");
  Json out =
      section(g10_times_title, {column("workload", "workload", "text"), column("policy", "policy", "text"),
                                column("published_s", "published, s", "s"), column("ours_s", "ours, s", "s"),
                                column("apart", "apart", "percent"), column("seconds", "took, s", "s"),
                                column("met", "within 0.3%", "yes"), column("note", "", "text")});
  const nlohmann::json baselines = nlohmann::json::parse(*text);
  for (const auto& [name, about] : baselines.at("workloads").items()) {
    const auto workload = workload_of(options, name);
    if (!workload) continue;
    for (const Policy& policy : published_policies)
      out["rows"].push_back(
          row_of(*workload, policy, published_us(about.at("policies").at(policy.published))));
  }
  return out;
}

Json measure_g10_policies(const PlannerOptions& options) {
  Json out =
      section(g10_policies_title, {column("workload", "workload", "text"), column("policy", "policy", "text"),
                                   column("seconds", "a step, s", "s"),
                                   column("slowdown", "slowdown", "ratio"), column("note", "", "text")});
  for (const std::string& file : data_files(options, "g10", ".json.gz")) {
    const std::string name = file.substr(4, file.size() - 4 - 8);  // without "g10/" and ".json.gz"
    const auto workload = workload_of(options, name);
    if (!workload) continue;
    for (const planner::SwapPolicy& policy : planner::swap_policies())
      if (!policy.moves_on_demand_only()) out["rows"].push_back(policy_row(*workload, policy));
  }
  if (out["rows"].empty()) return skipped(g10_policies_title, "no g10/*.json.gz in the data");
  out["notes"] = {
      "pages that a plan leaves out move on demand, first in, first out; G10 itself is in the table above"};
  return out;
}

}  // namespace terrace::bench
