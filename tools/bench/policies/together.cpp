// Moving and recomputing together, beside either alone: `joint`, the best plan that only moves, and the
// search over runs, which only recomputes, in as much memory and in more by what the link can carry before
// the step needs most.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "daemon/planner/recompute/search/search.h"
#include "daemon/planner/simulate/gaps/gaps.h"
#include "tools/bench/policies/parts.h"

namespace terrace::bench {
namespace {

namespace recompute = planner::recompute;

struct BudgetGroup {
  const char* group;
  double of_peak;
};
constexpr BudgetGroup budget_groups[] = {{"dtr-80", 0.8}, {"dtr-60", 0.6}, {"dtr-40", 0.4}};
// DTR's logs for which the link is the limit: moving alone does not hide its transfers.
constexpr std::array bound_by_link = {"inceptionv4-64", "resnet32-56", "transformer-10", "tv_densenet121-84",
                                      "unet-6"};
constexpr double equal_within = 1e-9;
constexpr double no_plan = std::numeric_limits<double>::infinity();

// Of the second of two steps, to computing alone; infinite where the judge disagrees or the plan cannot run.
double slowdown_of(const PolicyCase& c, const planner::SwapPlan& plan) {
  const auto report = planner::simulate_repeated(c.trace, c.machine, plan, plan.victims, true);
  const bool valid = report && planner::check_timeline(c.trace, c.machine, *report).empty();
  return valid ? report->total_us / planner::ideal_starts_us(c.trace).back() : no_plan;
}

bool recomputes(const planner::SwapPlan& plan) {
  return std::any_of(plan.entries.begin(), plan.entries.end(),
                     [](const wire::ScheduleEntry& e) { return e.action == wire::Action::redo; });
}

double by_moving_alone(const PolicyCase& c) {
  double best = no_plan;
  for (const planner::SwapPolicy& policy : planner::published_swap_policies()) {
    const auto plan = policy.plan(c.trace, c.machine);
    if (plan && !recomputes(*plan)) best = std::min(best, slowdown_of(c, *plan));
  }
  return best;
}

double by_recomputing_alone(const recompute::Step& step, std::uint64_t budget_bytes) {
  const auto schedule = recompute::search_recomputation(step, budget_bytes);
  if (!schedule) return no_plan;
  const recompute::Price price = check_schedule(step, *schedule, budget_bytes);
  return price.wrong.empty() ? static_cast<double>(price.cost_ns) / static_cast<double>(step.cost_ns)
                             : no_plan;
}

// Away from tier 0, before the operation at which most lives begins.
std::uint64_t carried_before_peak_bytes(const PolicyCase& c) {
  const std::vector<std::uint64_t> resident = planner::resident_bytes(c.trace);
  const auto peak = std::max_element(resident.begin(), resident.end()) - resident.begin();
  const double before_us = planner::ideal_starts_us(c.trace)[static_cast<std::size_t>(peak)];
  return static_cast<std::uint64_t>(before_us / 1e6 * c.machine.links[0].out_bytes_per_second);
}

Json measure(const PolicyCase& c, double share) {
  Json row{{"workload", c.workload}, {"share", share}};
  const auto joint = planner::swap_policy("joint")->plan(c.trace, c.machine);
  const double ours = joint ? slowdown_of(c, *joint) : no_plan;
  const double moving = by_moving_alone(c);
  const auto step = recompute::step_of(c.trace);
  const std::uint64_t budget = c.machine.tiers[0].capacity_bytes;
  const std::uint64_t carried = carried_before_peak_bytes(c);
  const double again = step ? by_recomputing_alone(*step, budget) : no_plan;
  const double more = step ? by_recomputing_alone(*step, budget + carried) : no_plan;
  const auto set = [&](const char* key, double value) {
    if (value < no_plan) row[key] = value;
  };
  set("joint", ours);
  set("moving", moving);
  set("recomputing", again);
  row["carried"] = carried;
  row["with_carried"] = static_cast<double>(budget + carried) / static_cast<double>(budget) * share;
  set("recomputing_more", more);
  row["not_worse"] = ours <= std::min(moving, again) * (1 + equal_within);
  row["met"] = row["not_worse"].get<bool>() && ours <= more * (1 + equal_within);
  return row;
}

}  // namespace

Json measure_together(const PlannerOptions& options) {
  Json out =
      section("Moving and recomputing together, beside either alone: DTR's logs for which the link is short",
              {column("workload", "step", "text"), column("share", "memory", "ratio"),
               column("joint", "joint", "ratio"), column("moving", "moving alone", "ratio"),
               column("recomputing", "recomputing alone", "ratio"),
               column("carried", "carried before the peak", "bytes"),
               column("with_carried", "memory and that", "ratio"),
               column("recomputing_more", "recomputing alone in it", "ratio"),
               column("not_worse", "not worse than either", "yes"), column("met", "nor than that", "yes")});
  for (const BudgetGroup& budget : budget_groups) {
    for (const PolicyCase& c : policy_group(options, budget.group).cases) {
      if (std::find(bound_by_link.begin(), bound_by_link.end(), c.workload) != bound_by_link.end())
        out["rows"].push_back(measure(c, budget.of_peak));
    }
  }
  out["notes"] = Json::array(
      {"slowdown to computing alone; memory as a share of the most that lives at once; moving alone: the "
       "best "
       "published plan that makes nothing again; recomputing alone: the search over runs, without a link",
       "carried before the peak: what the link to DRAM moves from the step's begin to the operation at which "
       "most lives"});
  return out;
}

}  // namespace terrace::bench
