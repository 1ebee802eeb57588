// Recomputation: DTR and segments on DTR's authors' logs, beside what their simulator says at the same
// budgets in bytes; every policy on Checkmate's chains, beside the integer programme's optimum.
#include "daemon/planner/recompute/dtr/dtr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/planner/recompute/static/policies.h"
#include "tools/bench/planner/parts.h"
#include "tools/bench/planner/recompute/logs.h"

namespace terrace::bench {
namespace {

namespace recompute = planner::recompute;

constexpr const char* title = "Recomputation as DTR does it, beside simrd at the same budgets in bytes";
constexpr const char* chains_title = "Recomputation on Checkmate's chains, beside the integer programme";
constexpr double close_enough = 0.02;                   // of simrd's overhead
constexpr std::size_t most_operations_of_plans = 3000;  // segments take the square of them

struct Agreement {
  std::uint32_t points = 0, within = 0, other_outcome = 0;
};

const char* name_of(recompute::DtrOutcome outcome) {
  switch (outcome) {
    case recompute::DtrOutcome::finished:
      return "";
    case recompute::DtrOutcome::out_of_memory:
      return "out of memory";
    case recompute::DtrOutcome::thrashing:
      break;
  }
  return "thrashing";
}

Json priced(const recompute::Step& step, const Result<recompute::Schedule>& schedule,
            std::uint64_t budget_bytes) {
  if (!schedule) return {{"outcome", "no plan"}};
  const recompute::Price price = check_schedule(step, *schedule, budget_bytes);
  if (!price.wrong.empty()) return {{"outcome", "does not fit"}};
  return {{"overhead", static_cast<double>(price.cost_ns) / static_cast<double>(step.cost_ns)},
          {"again", price.recomputations}};
}

// Ours, as "overhead" or as "outcome".
Json measured(const recompute::Step& step, recompute::HeuristicKind kind, std::uint64_t budget_bytes) {
  const recompute::DtrReport report = run_dtr(step, {.heuristic = kind, .budget_bytes = budget_bytes});
  Json row;
  if (report.outcome != recompute::DtrOutcome::finished) return {{"outcome", name_of(report.outcome)}};
  const recompute::Price price = check_schedule(step, report.schedule, budget_bytes);
  if (!price.wrong.empty() || price.cost_ns != report.cost_ns)
    return {{"outcome", "not valid: " + price.wrong}};
  row["overhead"] = static_cast<double>(price.cost_ns) / static_cast<double>(step.cost_ns);
  row["evictions"] = report.evictions;
  row["again"] = price.recomputations;
  return row;
}

void compare(const Json& point, bool peaks_agree, Json* row, Agreement* agreement) {
  const bool theirs = point["status"] == "ok";
  const bool ours = row->contains("overhead");
  if (theirs) (*row)["simrd"] = point["overhead"];
  if (!theirs) (*row)["simrd_outcome"] = point["status"] == "OOM" ? "out of memory" : "thrashing";
  bool within = theirs == ours;
  if (theirs && ours) {
    const double off = (*row)["overhead"].get<double>() / point["overhead"].get<double>() - 1;
    (*row)["off"] = 100 * off;
    within = std::abs(off) <= close_enough;
  }
  if (!peaks_agree) return;
  (*row)["met"] = within;
  ++agreement->points;
  agreement->within += within ? 1 : 0;
  agreement->other_outcome += theirs != ours ? 1 : 0;
}

// Policies that plan ahead, at each budget that the reference names for the log.
void add_plans(const SimrdLog& log, const Json& of_log, Json* out) {
  for (const auto& [ratio, budget_bytes] : log.budgets()) {
    for (const auto& [name, plan] : recompute::static_policies()) {
      if (!name.starts_with("Chen")) continue;
      Json row = of_log;
      row["ratio"] = ratio;
      row["policy"] = name;
      row.update(priced(log.step, plan(log.step, budget_bytes, {}), budget_bytes));
      (*out)["rows"].push_back(std::move(row));
    }
  }
}

// Every heuristic at each budget that the reference names for the log; on large logs only those that it has.
void add_heuristics(const SimrdLog& log, const Json& of_log, Json* out, Agreement* agreement) {
  for (const auto& [ratio, budget_bytes] : log.budgets()) {
    for (const auto& [heuristic, kind] : recompute::dtr_heuristics()) {
      const Json* point = log.point(heuristic, ratio);
      if (point == nullptr && log.step.operations.size() > most_operations_of_plans) continue;
      Json row = of_log;
      row["ratio"] = ratio;
      row["policy"] = heuristic;
      row.update(measured(log.step, kind, budget_bytes));
      if (point != nullptr) compare(*point, log.peaks_agree(), &row, agreement);
      (*out)["rows"].push_back(std::move(row));
    }
  }
}

Result<recompute::Step> step_of_instance(const Json& instance) {
  recompute::NodeGraph graph;
  graph.cost_ns = instance["cpu"].get<std::vector<std::int64_t>>();
  graph.bytes = instance["ram"].get<std::vector<std::uint64_t>>();
  graph.edges = instance["edges"].get<std::vector<std::pair<std::uint32_t, std::uint32_t>>>();
  graph.backward_begins = instance["fwd_layers"].get<std::uint32_t>() + 1;  // after the loss
  return step_of(graph);
}

void add_dtr(const recompute::Step& step, std::uint64_t budget_bytes, Json* row) {
  for (const auto& [heuristic, kind] : recompute::dtr_heuristics()) {
    const Json ours = measured(step, kind, budget_bytes);
    if (ours.contains("overhead"))
      (*row)[std::string(heuristic)] =
          std::llround(ours["overhead"].get<double>() * static_cast<double>(step.cost_ns));
  }
}

Json chain_row(const Json& instance, const recompute::Step& step) {
  const auto budget_bytes = instance["budget"].get<std::uint64_t>();
  Json row{{"layers", instance["fwd_layers"]},
           {"budget", budget_bytes},
           {"once", step.cost_ns},
           {"optimum", instance["best_objective"]}};
  if (instance["lower_bound"].is_number()) row["bound"] = instance["lower_bound"];
  for (const auto& [name, plan] : recompute::static_policies()) {
    const auto schedule = plan(step, budget_bytes, {});
    if (!schedule) continue;
    const recompute::Price price = check_schedule(step, *schedule, budget_bytes);
    if (price.wrong.empty()) row[std::string(name)] = price.cost_ns;
  }
  add_dtr(step, budget_bytes, &row);
  const double best = row.value("chain programme", std::numeric_limits<double>::infinity());
  row["met"] = best <= 1.01 * instance["best_objective"].get<double>();
  return row;
}

}  // namespace

Json measure_recompute_chains(const PlannerOptions& options) {
  const auto text = data_file(options, "checkmate_chain_instances.json");
  if (!text) return skipped(chains_title, "no checkmate_chain_instances.json in the data");
  std::vector<Json> columns{column("layers", "layers", "count"), column("budget", "budget", "count"),
                            column("once", "computing once", "count"),
                            column("optimum", "CBC's best", "count"),
                            column("bound", "CBC's bound", "count")};
  for (const auto& policy : recompute::static_policies()) {
    const std::string name(policy.name);
    columns.push_back(column(name.c_str(), name.c_str(), "count"));
  }
  for (const auto& heuristic : recompute::dtr_heuristics()) {
    const std::string name(heuristic.name);
    columns.push_back(column(name.c_str(), name.c_str(), "count"));
  }
  columns.push_back(column("met", "within 1%", "yes"));
  Json out = section(chains_title, std::move(columns));
  const Json data = Json::parse(*text);
  for (const Json& instance : data["instances"]) {
    const auto step = step_of_instance(instance);
    if (step) out["rows"].push_back(chain_row(instance, *step));
  }
  out["notes"] = {
      "costs of valid schedules in the instances' units, replayed by the checker; empty: refused, or over "
      "the budget",
      "within 1%: the chain programme's cost over the best that CBC found"};
  return out;
}

Json measure_recompute(const PlannerOptions& options) {
  const auto reference = data_file(options, simrd_reference_file);
  if (!reference) return skipped(title, std::string("no ") + simrd_reference_file + " in the data");
  Json out = section(title, {column("log", "log", "text"), column("peak", "peak over simrd's", "ratio"),
                             column("ratio", "budget", "ratio"), column("policy", "policy", "text"),
                             column("overhead", "cost", "ratio"), column("outcome", "", "text"),
                             column("simrd", "simrd's cost", "ratio"), column("simrd_outcome", "", "text"),
                             column("off", "off", "percent"), column("evictions", "evictions", "count"),
                             column("again", "recomputations", "count"), column("met", "within 2%", "yes")});
  Agreement agreement;
  for (const SimrdLog& log : simrd_logs(options, *reference)) {
    const Json of_log{{"log", log.model}, {"peak", log.peak}};
    add_heuristics(log, of_log, &out, &agreement);
    if (log.step.operations.size() <= most_operations_of_plans) add_plans(log, of_log, &out);
  }
  out["notes"] = {
      fmt::format("{} of {} points agree within 2% on the logs whose peaks agree; at {} one of the two "
                  "gave up and the other did not",
                  agreement.within, agreement.points, agreement.other_outcome)};
  return out;
}

}  // namespace terrace::bench
