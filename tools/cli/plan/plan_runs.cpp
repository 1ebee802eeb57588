#include "tools/cli/plan/plan_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace terrace::cli {

using planner::ReusePolicy;
using planner::SwapPolicy;

namespace {

// The first step begins with empty memory below, the second as every later one does.
constexpr std::uint32_t simulated_steps = 2;
constexpr double effort_from_a_plan = 0.1;

template <class Policy>
bool add_named(const std::vector<Policy>& all, const std::string& name, std::vector<Policy>* chosen) {
  const auto is_it = [&name](const Policy& policy) { return name == policy.name; };
  const auto found = std::find_if(all.begin(), all.end(), is_it);
  if (found == all.end()) return false;
  if (std::none_of(chosen->begin(), chosen->end(), is_it)) chosen->push_back(*found);
  return true;
}

std::string no_such_policy(const std::string& name) {
  // What the exact search was called before, as in results that were kept.
  if (name == "minimalloc") return "--policy minimalloc: there is no such policy; did you mean 'exact'?";
  return fmt::format("--policy {}: there is no such policy; 'terrace plan --list' names them", name);
}

// One that needs a machine. What is wrong with the name; empty: nothing.
std::string add_moving(const std::string& name, ChosenPolicies* chosen) {
  if (name.find('+') == std::string::npos) {
    const bool known = add_named(planner::swap_policies(), name, &chosen->swap) ||
                       add_named(planner::update_policies(), name, &chosen->update);
    return known ? "" : no_such_policy(name);
  }
  const auto decorated = planner::swap_policy(name);
  if (!decorated) return fmt::format("--policy {}: {}", name, decorated.error);
  add_named(std::vector{*decorated}, name, &chosen->swap);
  return "";
}

template <class Run, class Less>
const Run* least(const std::vector<Run>& runs, const Less& less) {
  const Run* best = nullptr;
  for (const Run& run : runs)
    if (run.valid() && (best == nullptr || less(run, *best))) best = &run;
  return best;
}

void simulate_into(SwapRun* run, const planner::OffloadedStep& step, const wire::Trace& trace,
                   const planner::Machine& machine) {
  const auto report = planner::simulate(step);
  if (!report) {
    run->why_not = report.error;
    return;
  }
  run->wrong = planner::check_timeline(step.trace, step.machine, *report);
  run->report = planner::for_one_step(step, *report);
  run->report->bounds = planner::lower_bounds(trace, machine);
}

void simulate_into(SwapRun* run, const wire::Trace& trace, const planner::Machine& machine) {
  planner::SimulationOptions options;
  options.victims = run->schedule->victims;
  options.steps = simulated_steps;
  options.record_timeline = true;
  auto report = planner::simulate(trace, machine, *run->schedule, options);
  if (!report) {
    run->why_not = std::move(report.error);
    return;
  }
  run->wrong = planner::check_timeline(trace, machine, *report);
  run->schedule->predicted = planner::prediction_of(*report);
  run->report = std::move(*report.value);
}

// Where the report is right and contents need addresses.
void place(SwapRun* run, const planner::Machine& machine) {
  const planner::Tier& first = machine.tiers[0];
  if (!run->valid() || first.paged || first.capacity_bytes == planner::unlimited_bytes) return;
  Result<planner::Addresses> addresses = planner::addresses_of(machine, *run->report);
  if (addresses) {
    run->addresses = std::move(*addresses);
  } else {
    run->wrong = std::move(addresses.error);
  }
}

// The run belongs to the work as well, which may outlive this call.
template <class Run, class Policy, class Work>
Run run_watched(const Policy& policy, SearchWatch& watch, Work work) {
  auto run = std::make_shared<Run>();
  run->policy = policy;
  if (watch.carry_out([run, work] { work(run.get()); })) return std::move(*run);
  Run left;
  left.policy = policy;
  left.seconds = watch.end();
  left.why_not = "interrupted before it had an answer";
  return left;
}

}  // namespace

Result<ChosenPolicies> choose_policies(const std::vector<std::string>& names, bool with_machine) {
  const auto reuse = planner::reuse_policies();
  ChosenPolicies chosen;
  for (const std::string& name : names) {
    if (name == "all") {
      chosen.reuse = reuse;
      if (with_machine) chosen.swap = planner::swap_policies();
      if (with_machine) chosen.update = planner::update_policies();
    } else if (add_named(reuse, name, &chosen.reuse)) {
    } else if (std::string why = add_moving(name, &chosen); !why.empty()) {
      return refused<ChosenPolicies>(std::move(why));
    } else if (!with_machine) {
      return refused<ChosenPolicies>(fmt::format(
          "--policy {} moves tensors between the tiers of a machine: say which with --machine", name));
    }
  }
  return ok(std::move(chosen));
}

ReuseRun run_policy(const ReusePolicy& policy, const planner::Instance& instance, const PlanLimits& limits,
                    SearchWatch& watch) {
  const auto control = watch.begin(policy.name, limits.seed, limits.capacity_bytes);
  return run_watched<ReuseRun>(policy, watch, [&instance, &watch, control](ReuseRun* run) {
    auto placement = run->policy.place(instance, control);
    run->seconds = watch.end();
    run->stopped = watch.stopped();
    run->why_not = std::move(placement.error);
    if (placement) {
      run->wrong = planner::check_placement(instance, *placement);
      run->placement = std::move(placement.value);
    }
  });
}

SwapRun run_policy(const SwapPolicy& policy, const wire::Trace& trace, const planner::Machine& machine,
                   const PlanLimits& limits, SearchWatch& watch) {
  planner::SwapControl control;
  control.seed = limits.seed;
  control.effort = limits.effort;
  if (limits.from && policy.name == "joint") {
    control.from = &*limits.from;
    control.effort *= effort_from_a_plan;
  }
  control.stop = watch.begin(policy.name, limits.seed, 0).stop;
  return run_watched<SwapRun>(policy, watch, [&trace, &machine, &watch, control](SwapRun* run) {
    auto schedule = run->policy.plan(trace, machine, control);
    run->seconds = watch.end();
    run->stopped = watch.stopped();
    run->why_not = std::move(schedule.error);
    run->schedule = std::move(schedule.value);
    if (run->schedule) simulate_into(run, trace, machine);
    place(run, machine);
  });
}

SwapRun run_policy(const planner::UpdatePolicy& policy, const wire::Trace& trace,
                   const planner::Machine& machine, const PlanLimits& limits, SearchWatch& watch) {
  watch.begin(policy.name, limits.seed, 0);
  const SwapPolicy named{policy.name, policy.family, policy.source, planner::Victims::none, nullptr};
  const bool delayed = policy.delayed;
  return run_watched<SwapRun>(named, watch, [&trace, &machine, &watch, delayed](SwapRun* run) {
    auto step = planner::offload_update(trace, machine, delayed);
    run->of_another_step = true;
    run->seconds = watch.end();
    run->why_not = std::move(step.error);
    if (step) simulate_into(run, *step, trace, machine);
  });
}

const ReuseRun* best_of(const std::vector<ReuseRun>& runs) {
  return least(runs, [](const ReuseRun& a, const ReuseRun& b) {
    return a.placement->total_bytes < b.placement->total_bytes;
  });
}

const SwapRun* best_of(const std::vector<SwapRun>& runs) {
  const auto less = [](const SwapRun& a, const SwapRun& b) {
    return a.report->total_us < b.report->total_us;
  };
  const SwapRun* best = nullptr;
  for (const SwapRun& run : runs)
    if (run.valid() && !run.of_another_step && (best == nullptr || less(run, *best))) best = &run;
  return best;
}

}  // namespace terrace::cli
