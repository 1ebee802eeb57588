// G10's own simulator, rebuilt from its description, beside the times that its artifact gives for the same
// traces.
#include <cmath>

#include "daemon/planner/g10/g10.h"
#include "daemon/planner/trace_json.h"
#include "tools/bench/measure.h"
#include "tools/bench/planner_parts.h"

namespace terrace::bench {
namespace {

constexpr const char* g10_times_title =
    "G10's page-level simulator: our rebuilding of it beside its published times";
constexpr double most_apart_from_published = 0.10;

struct Policy {
  const char* published;  // in BASELINES.json
  Result<planner::PageSchedule> (*plan)(const wire::Trace&, const planner::G10Machine&);
};
constexpr Policy published_policies[] = {
    {"Base-UVM", [](const auto&, const auto&) { return ok(planner::PageSchedule{}); }},
    {"DeepUM+", planner::plan_deepum_pages},
    {"G10", planner::plan_g10_pages}};

Json row_of(const std::string& workload, const wire::Trace& trace, const Policy& policy,
            double published_us) {
  Json row{{"workload", workload}, {"policy", policy.published}, {"published_s", published_us / 1e6}};
  const double start = now_s();
  const auto schedule = policy.plan(trace, {});
  const auto report =
      schedule ? planner::simulate_g10(trace, {}, *schedule) : refused<planner::G10Report>(schedule.error);
  row["seconds"] = now_s() - start;
  row["met"] = false;
  if (!report) {
    row["note"] = report.error;
    return row;
  }
  const double ghz = planner::G10Machine{}.gpu_ghz;
  const double ours_us = static_cast<double>(report->iterations[report->reported].cycles) / (1e3 * ghz);
  row["ours_s"] = ours_us / 1e6;
  row["apart"] = ours_us / published_us - 1;
  row["met"] = std::abs(ours_us / published_us - 1) <= most_apart_from_published;
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
                                column("met", "within 10%", "yes"), column("note", "", "text")});
  const nlohmann::json baselines = nlohmann::json::parse(*text);
  for (const auto& [workload, about] : baselines.at("workloads").items()) {
    const auto file = data_file(options, "g10/" + workload + ".json.gz");
    const auto trace = file ? planner::parse_trace(*file) : Result<wire::Trace>();
    if (!trace) continue;
    for (const Policy& policy : published_policies)
      out["rows"].push_back(
          row_of(workload, *trace, policy, about.at("policies").at(policy.published).at("time_us")));
  }
  return out;
}

}  // namespace terrace::bench
