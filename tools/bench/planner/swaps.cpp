// Every swap policy's step of G10's workloads in our own simulator, beside the bound that no schedule beats.
#include <fmt/format.h>

#include "daemon/planner/simulate/machines.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/trace_json.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/least_step.h"
#include "tools/bench/planner/parts.h"

namespace terrace::bench {
namespace {

using planner::Machine;
using planner::SwapPolicy;

constexpr const char* swaps_title = "Every swap policy's plan in our simulator, and the bound on any plan";

Json row_of(const wire::Trace& trace, const Machine& machine, const SwapPolicy& policy, LeastStep* least) {
  Json row{{"policy", policy.name}};
  const auto schedule = policy.plan(trace, machine);
  if (!schedule) {
    row["note"] = schedule.error;
    return row;
  }
  if (schedule->operations.empty())
    least->judge(*schedule, schedule->victims, "met", &row);
  else
    least->in_order_of(*schedule).judge(*schedule, schedule->victims, "met", &row);
  return row;
}

}  // namespace

Json measure_swaps(const PlannerOptions& options) {
  Json out =
      section(swaps_title, {column("workload", "workload", "text"), column("machine", "machine", "text"),
                            column("policy", "policy", "text"), column("slowdown", "slowdown", "ratio"),
                            column("bound", "bound", "ratio"), column("to_bound", "to bound", "ratio"),
                            column("met", "valid", "yes"), column("note", "", "text")});
  double longest_s = 0;
  for (const std::string& file : data_files(options, "g10", ".json.gz")) {
    const std::string workload = file.substr(4, file.size() - 4 - 8);  // without "g10/" and ".json.gz"
    const auto trace = planner::parse_trace(*data_file(options, file));
    if (!trace) continue;
    for (const std::string& name : planner::built_in_machine_names()) {
      const Machine machine = *planner::built_in_machine(name);
      LeastStep least(*trace, machine);
      const double start = now_s();
      least.of({});
      longest_s = std::max(longest_s, now_s() - start);
      for (const SwapPolicy& policy : planner::swap_policies()) {
        Json row{{"workload", workload}, {"machine", name}};
        row.update(row_of(*trace, machine, policy, &least));
        out["rows"].push_back(std::move(row));
      }
    }
  }
  if (out["rows"].empty()) return skipped(swaps_title, "no g10/*.json.gz in the data");
  out["notes"] = {
      fmt::format("bound: the least slowdown that any schedule without recomputation can have (of those that "
                  "recompute: any schedule), by a linear programme; the first found in at most {:.1f} s each",
                  longest_s)};
  return out;
}

}  // namespace terrace::bench
