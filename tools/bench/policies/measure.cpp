#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "daemon/planner/recompute/dtr/coop.h"
#include "daemon/planner/recompute/search/search.h"
#include "daemon/planner/recompute/static/policies.h"
#include "daemon/planner/simulate/policies/zero_offload.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/least_step.h"
#include "tools/bench/policies/parts.h"

namespace terrace::bench {
namespace {

namespace recompute = planner::recompute;
using planner::SwapPolicy;

constexpr std::uint32_t quick_instants = 16;
constexpr std::size_t most_operations_of_segments = 3000;  // Chen's take the square of them

// One policy on one case. Where it ran: "slowdown", the bounds on it ("moving_bound": of plans that recompute
// nothing; "recomputing_bound": of all plans), and which of them holds for the plan ("bound", "to_bound");
// all of the order in which the plan runs the operations, and where that is another one "reordered", how many
// stand elsewhere. Else "note". "plan_ms" always.
using Cases = std::vector<Json>;

Json moved(const PolicyCase& c, const SwapPolicy& policy, wire::Order in_order, LeastStep* least) {
  Json row{{"workload", c.workload}, {"policy", policy.name}};
  const double start = now_s();
  auto schedule = policy.plan(c.trace, c.machine);
  row["plan_ms"] = (now_s() - start) * 1e3;
  if (!schedule) {
    row["note"] = schedule.error;
    return row;
  }
  schedule->in_order = in_order;
  std::optional<LeastStep> reordered;
  if (!schedule->operations.empty()) least = &reordered.emplace(least->in_order_of(*schedule));
  least->judge(*schedule, schedule->victims, "valid", &row);
  if (row.contains("slowdown")) {
    const double compute_us = planner::lower_bounds(c.trace, c.machine).compute_us;
    row["moving_bound"] = least->of_moving().step_us / compute_us;
    row["recomputing_bound"] = least->of_recomputing().step_us / compute_us;
  }
  return row;
}

// The step without its update, to computing with it; bounds are of the step with it, and hold for neither.
Json with_update_on_cpu(const PolicyCase& c, const planner::UpdatePolicy& policy) {
  Json row{{"workload", c.workload}, {"policy", policy.name}};
  const double start = now_s();
  const auto step = planner::offload_update(c.trace, c.machine, policy.delayed);
  row["plan_ms"] = (now_s() - start) * 1e3;
  if (!step) {
    row["note"] = step.error;
    return row;
  }
  const auto report = planner::simulate(*step);
  if (!report) {
    row["note"] = "does not fit";
    return row;
  }
  const std::string wrong = planner::check_timeline(step->trace, step->machine, *report);
  row["slowdown"] =
      planner::for_one_step(*step, *report).total_us / planner::lower_bounds(c.trace, c.machine).compute_us;
  row["valid"] = wrong.empty();
  if (!wrong.empty()) row["note"] = wrong;
  return row;
}

struct Remade {
  Remade(Result<recompute::Schedule> made, std::string wrong = {})
      : schedule(std::move(made)), wrong_addresses(std::move(wrong)) {}
  Result<recompute::Schedule> schedule;
  std::string wrong_addresses;  // of what has addresses; empty: they hold
};
using Remake = std::function<Remade(const recompute::Step&, std::uint64_t)>;

Result<recompute::Schedule> schedule_of(recompute::DtrReport report) {
  if (report.outcome == recompute::DtrOutcome::finished) return ok(std::move(report.schedule));
  return refused<recompute::Schedule>(report.outcome == recompute::DtrOutcome::thrashing ? "thrashing"
                                                                                         : "out of memory");
}

// Of a report with addresses.
Remade placed(const recompute::Step& step, recompute::DtrReport report, std::uint64_t budget) {
  const bool finished = report.outcome == recompute::DtrOutcome::finished;
  std::string wrong = finished ? recompute::check_addresses(step, report, budget) : std::string();
  return {schedule_of(std::move(report)), std::move(wrong)};
}

std::vector<std::pair<std::string, Remake>> remaking_policies() {
  std::vector<std::pair<std::string, Remake>> all;
  for (const auto& [name, plan] : recompute::static_policies())
    if (name.starts_with("Chen"))
      all.emplace_back(name, [plan = plan](const recompute::Step& step, std::uint64_t budget) {
        return plan(step, budget, {});
      });
  for (const auto& heuristic : recompute::dtr_heuristics())
    all.emplace_back(heuristic.name,
                     [kind = heuristic.kind](const recompute::Step& step, std::uint64_t budget) {
                       return schedule_of(run_dtr(step, {.heuristic = kind, .budget_bytes = budget}));
                     });
  // Where results need their bytes in a row.
  all.emplace_back("h_DTR-eq, addresses", [](const recompute::Step& step, std::uint64_t budget) {
    const recompute::DtrOptions options{.heuristic = recompute::HeuristicKind::dtr_eq,
                                        .budget_bytes = budget,
                                        .space = recompute::Space::addresses};
    return placed(step, run_dtr(step, options), budget);
  });
  all.emplace_back("Coop, addresses", [](const recompute::Step& step, std::uint64_t budget) {
    return placed(step, recompute::run_coop(step, budget), budget);
  });
  all.emplace_back("search over runs", [](const recompute::Step& step, std::uint64_t budget) {
    recompute::SearchOptions options;
    options.relaxation = recompute::relaxation_policy();
    return recompute::search_recomputation(step, budget, options);
  });
  return all;
}

Json remade(const PolicyCase& c, const recompute::Step& step, const std::string& policy, const Remake& plan) {
  Json row{{"workload", c.workload}, {"policy", policy}};
  if (policy.starts_with("Chen") && step.operations.size() > most_operations_of_segments) {
    row["note"] = "left out: more than 3,000 operations";
    return row;
  }
  const std::uint64_t budget_bytes = c.machine.tiers[0].capacity_bytes;
  const double start = now_s();
  const auto [schedule, wrong_addresses] = plan(step, budget_bytes);
  row["plan_ms"] = (now_s() - start) * 1e3;
  if (!schedule) {
    row["note"] = schedule.error;
    return row;
  }
  const recompute::Price price = check_schedule(step, *schedule, budget_bytes);
  if (!price.wrong.empty()) {
    row["note"] = "does not fit";
    return row;
  }
  row["slowdown"] = static_cast<double>(price.cost_ns) / static_cast<double>(step.cost_ns);
  row["bound"] = row["recomputing_bound"] = 1;  // every operation runs once
  row["to_bound"] = row["slowdown"];
  row["valid"] = wrong_addresses.empty();
  return row;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::vector<double> values_of(const Cases& cases, const char* key) {
  std::vector<double> values;
  for (const Json& c : cases)
    if (c.contains(key)) values.push_back(c[key]);
  return values;
}

Json summary(const std::string& policy, const Cases& cases) {
  Json row{{"policy", policy}};
  const std::vector<double> slowdowns = values_of(cases, "slowdown");
  row["ran"] = fmt::format("{} of {}", slowdowns.size(), cases.size());
  if (const std::vector<double> times = values_of(cases, "plan_ms"); !times.empty()) {
    row["plan_ms"] = median(times);
    row["longest_ms"] = *std::max_element(times.begin(), times.end());
  }
  if (slowdowns.empty()) return row;
  row["mean"] = geometric_mean(slowdowns);
  const auto with_addresses = [](const Json& c) { return c.value("addresses_fit", false); };
  if (std::any_of(cases.begin(), cases.end(), [](const Json& c) { return c.contains("addresses_fit"); }))
    row["addresses"] = fmt::format("{}", std::count_if(cases.begin(), cases.end(), with_addresses));
  row["worst"] = *std::max_element(slowdowns.begin(), slowdowns.end());
  for (const std::string kind : {"moving_bound", "recomputing_bound"}) {
    const std::vector<double> bounds = values_of(cases, kind.c_str());
    if (bounds.empty()) continue;
    const double bound = geometric_mean(bounds);
    row[kind] = bound;
    row["to_" + kind] = row["mean"].get<double>() / bound;
  }
  row["met"] = std::all_of(cases.begin(), cases.end(), [](const Json& c) { return c.value("valid", true); });
  return row;
}

// Of a group without a link there is no bound of moving.
Json table(const PolicyGroup& group, bool alone) {
  std::vector<Json> columns{column("policy", "policy", "text"), column("ran", "ran", "text"),
                            column("mean", "geometric mean", "ratio"), column("worst", "worst", "ratio")};
  if (!alone) {
    columns.push_back(column("moving_bound", "bound: moving", "ratio"));
    columns.push_back(column("to_moving_bound", "to it", "ratio"));
    columns.push_back(column("recomputing_bound", "bound: all", "ratio"));
    columns.push_back(column("to_recomputing_bound", "to it", "ratio"));
  }
  if (!alone) columns.push_back(column("addresses", "addresses fit", "text"));
  columns.push_back(column("plan_ms", "planning, ms", "ms"));
  columns.push_back(column("longest_ms", "longest, ms", "ms"));
  columns.push_back(column("met", "valid", "yes"));
  return section(group.title.c_str(), std::move(columns));
}

// Where there is a codec, some also with their moves compressed, or with rests encoded: the best of each
// family.
std::vector<SwapPolicy> policies_for(const PolicyGroup& group) {
  std::vector<SwapPolicy> all = planner::swap_policies();
  if (group.cases.empty() || group.cases.front().machine.codecs.empty()) return all;
  for (const char* name : {"flashneuron", "swapadvisor", "capuchin_swap", "capuchin", "g10"}) {
    for (const char* rule : {"+cdma", "+cswap", "+gist"})
      all.push_back(*planner::swap_policy(std::string(name) + rule));
  }
  return all;
}

std::vector<Cases> move_all(const PolicyGroup& group, const PlannerOptions& options) {
  const std::vector<SwapPolicy> policies = policies_for(group);
  std::vector<Cases> of_policies(policies.size());
  for (const PolicyCase& c : group.cases) {
    LeastStep least(c.trace, c.machine, options.quick ? quick_instants : 0);
    for (std::size_t p = 0; p < policies.size(); ++p)
      of_policies[p].push_back(moved(c, policies[p], options.in_order, &least));
  }
  return of_policies;
}

std::vector<Cases> update_all(const PolicyGroup& group) {
  const std::vector<planner::UpdatePolicy> policies = planner::update_policies();
  std::vector<Cases> of_policies(policies.size());
  for (const PolicyCase& c : group.cases)
    for (std::size_t p = 0; p < policies.size(); ++p)
      of_policies[p].push_back(with_update_on_cpu(c, policies[p]));
  return of_policies;
}

std::vector<Cases> remake_all(const PolicyGroup& group) {
  const auto policies = remaking_policies();
  std::vector<Cases> of_policies(policies.size());
  for (const PolicyCase& c : group.cases) {
    const auto step = recompute::step_of(c.trace);
    if (!step) continue;
    for (std::size_t p = 0; p < policies.size(); ++p)
      of_policies[p].push_back(remade(c, *step, policies[p].first, policies[p].second));
  }
  return of_policies;
}

}  // namespace

Json measure_group(const PlannerOptions& options, const PolicyGroup& group) {
  if (!group.missing.empty()) return skipped(group.title.c_str(), group.missing);
  const bool alone = group.name.starts_with("recompute");
  Json out = table(group, alone);
  std::vector<Cases> all = alone ? remake_all(group) : move_all(group, options);
  if (group.name.starts_with("adam"))
    for (Cases& cases : update_all(group)) all.push_back(std::move(cases));
  for (const Cases& cases : all) {
    if (cases.empty()) continue;
    const auto policy = cases.front()["policy"].get<std::string>();
    if (policy != "keep") out["rows"].push_back(summary(policy, cases));
    for (const Json& c : cases) out["cases"].push_back(c);
  }
  out["notes"] =
      alone
          ? Json::array(
                {"slowdown: computing, with what is computed again, to computing once; no bound is known"})
          : Json::array(
                {"mean, worst and bounds are slowdowns to computing alone, over the cases that ran",
                 "bound: moving: the least of any schedule that recomputes nothing; bound: all: of any "
                 "schedule; to it: mean to bound",
                 "bounds hold for the order of the operations in which a plan runs them",
                 "addresses fit: of so many steps what lies in the first tier can be given addresses there"});
  if (!group.note.empty()) out["notes"].push_back(group.note);
  return out;
}

}  // namespace terrace::bench
