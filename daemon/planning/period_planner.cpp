#include "daemon/planning/period_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "daemon/base/names.h"
#include "daemon/base/size.h"
#include "daemon/planner/simulate/machines.h"
#include "daemon/planner/trace_limits.h"
#include "daemon/planning/completed_plan.h"
#include "daemon/sessions/session.h"
#include "liballoc/wire/schedule/image.h"

namespace terrace::daemon {
namespace {

using planner::SimulationReport;
using planner::SwapPlan;
using planner::Victims;

constexpr std::uint64_t run_bytes = std::uint64_t{2} << 20;
constexpr std::uint64_t runs_in_flight = 6 + 8;  // the pager's writes and reads
constexpr std::uint64_t reserve_share = 12;      // of the budget; at least what is in flight
constexpr double latency_us = 100;               // of the first bytes of a transfer, both ways
constexpr double least_speed = 1e6, most_speed = 1e12;
constexpr std::uint32_t simulated_steps = 2;  // the second one is what repeats
constexpr int most_completions = 4;           // what one leaves open the next one sees
constexpr double completed_may_take = 1.02;   // of the plan that leaves the rest to a rule
constexpr double worth_sending = 0.99;        // of the plan before: a search's is sent only if it is faster

double speed_or(std::uint64_t measured, double otherwise) {
  return measured == 0 ? otherwise : std::clamp(static_cast<double>(measured), least_speed, most_speed);
}

planner::Machine machine_of(const wire::PeriodHeader& header, std::uint64_t dram_bytes,
                            std::uint64_t pool_bytes) {
  const planner::Link drive = planner::built_in_machine("a100-ssd")->links[1];
  planner::Machine machine;
  machine.name = "job";
  machine.tiers = {{"dram", dram_bytes}, {"nvme", pool_bytes}};
  machine.tiers[0].paged = true;
  machine.links = {{"pool", speed_or(header.read_bytes_per_second, drive.in_bytes_per_second),
                    speed_or(header.write_bytes_per_second, drive.out_bytes_per_second), latency_us,
                    latency_us}};
  machine.routes = {{1, {0}}};
  return machine;
}

std::uint64_t names_in(const wire::Trace& trace) {
  std::uint64_t names = 0;
  for (const wire::TraceOp& op : trace.ops) names += op.inputs.size() + op.outputs.size();
  return names;
}

// What a job cannot carry out: its pager neither waits nor computes anything again.
void leave_moves_alone(SwapPlan* plan) {
  std::erase_if(plan->entries, [](const wire::ScheduleEntry& e) { return !wire::moves(e.action); });
}

const planner::SwapPolicy* find_policy(const std::vector<planner::SwapPolicy>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [name](const auto& p) { return p.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string seconds_text(double us) { return fmt::format("{:.3g} s", us / 1e6); }

}  // namespace

std::uint64_t reserve_bytes(std::uint64_t budget_bytes) {
  return std::max(runs_in_flight * run_bytes, budget_bytes / reserve_share);
}

PeriodPlanner::PeriodPlanner(const wire::PeriodView& period, const PlanSettings& settings)
    : policy_(period.policy().empty() ? settings.policy : std::string(period.policy())) {
  if (!wire::is_policy(policy_)) {
    policy_ = clean_text(policy_.data(), policy_.size());  // for people's terminals
    refusal_ = fmt::format("there is no policy \"{}\"; use one of {}", policy_, wire::policy_words);
  } else if (policy_ == wire::reactive_policy) {
    refusal_ = "the policy is reactive, which follows no plan; name another with --policy";
  } else {
    look(period, settings);
  }
}

void PeriodPlanner::look(const wire::PeriodView& period, const PlanSettings& settings) {
  const wire::PeriodHeader& header = *period.header;
  step_ = step_of(period);
  const std::uint64_t reserve = reserve_bytes(header.budget_bytes);
  const std::uint64_t taken = header.fixed_bytes + step_.always_bytes + reserve;  // each below 2^62
  if (taken >= header.budget_bytes) {
    refusal_ = fmt::format(
        "what cannot move takes {} of a budget of {}, and transfers {}: give the job more (--dram)",
        format_size(header.fixed_bytes + step_.always_bytes), format_size(header.budget_bytes),
        format_size(reserve));
    return;
  }
  if (const std::uint64_t names = names_in(step_.trace); names > most_names) {
    refusal_ = fmt::format("the period has {} uses of objects, and at most {} are planned in time", names,
                           most_names);
    return;
  }
  if (const std::string wrong = planner::check_limits(step_.trace); !wrong.empty()) {
    refusal_ = "the period is beyond what can be planned: " + wrong;
    return;
  }
  machine_ = machine_of(header, header.budget_bytes - taken, settings.pool_bytes);
  for (const wire::TraceOp& op : step_.trace.ops) computing_us_ += op.time_us;
  compare_with_demand();
}

void PeriodPlanner::compare_with_demand() {
  const auto report = simulate({{step_.trace.name, "on demand", {}}, Victims::belady});
  if (!report) {
    refusal_ = fmt::format("{} in the {} of DRAM that its objects may have", report.error,
                           format_size(machine_.tiers[0].capacity_bytes));
    return;
  }
  on_demand_us_ = report->total_us;
  if (report->stalls.total_us() <= 0)
    refusal_ = fmt::format("nothing has to move: what is in use at once fits into {}",
                           format_size(machine_.tiers[0].capacity_bytes));
}

Result<SimulationReport> PeriodPlanner::simulate(const SwapPlan& plan) const {
  planner::SimulationOptions options;
  options.victims = plan.victims == Victims::none ? Victims::belady : plan.victims;
  options.steps = simulated_steps;
  options.with_bounds = false;
  options.record_timeline = true;
  return planner::simulate(step_.trace, machine_, plan, options);
}

// Leaves nothing open where that is hardly slower: a job has no rule that knows the future.
Result<SimulationReport> PeriodPlanner::complete(SwapPlan* plan) const {
  Result<SimulationReport> report = simulate(*plan);
  if (!report) return report;
  const double most_us = report->total_us * completed_may_take;
  for (int i = 0; i < most_completions; ++i) {
    SwapPlan next = completed(step_.trace, *plan, *report);
    if (next.entries.size() == plan->entries.size()) break;
    Result<SimulationReport> of_next = simulate(next);
    if (!of_next || of_next->total_us > most_us) break;
    *plan = std::move(next);
    report = std::move(of_next);
  }
  return report;
}

// With the better order of what comes in.
Result<PeriodPlan> PeriodPlanner::judge(SwapPlan plan) const {
  leave_moves_alone(&plan);
  SwapPlan by_deadline = plan;
  by_deadline.in_order = wire::Order::deadline;
  auto best = complete(&plan);
  if (auto report = complete(&by_deadline); report && (!best || report->total_us < best->total_us)) {
    best = std::move(report);
    plan = std::move(by_deadline);
  }
  if (!best) return refused<PeriodPlan>(fmt::format("the plan of {} fails: {}", policy_, best.error));
  if (best->total_us > on_demand_us_ * completed_may_take)
    return refused<PeriodPlan>(fmt::format("the plan of {} would take {} a step, and moving on demand {}",
                                           policy_, seconds_text(best->total_us),
                                           seconds_text(on_demand_us_)));
  plan.predicted = planner::prediction_of(*best);
  plan.policy = policy_;
  turn_into_period(step_, &plan);
  Result<std::string> image =
      wire::schedule_image(plan, {machine_.tiers[0].name, machine_.tiers[1].name}, {});
  if (!image) return refused<PeriodPlan>(std::move(image.error));
  return ok(PeriodPlan{std::move(*image), policy_, static_cast<std::uint32_t>(plan.entries.size()),
                       best->total_us, on_demand_us_, computing_us_});
}

Result<PeriodPlan> PeriodPlanner::quick() {
  if (!refusal_.empty()) return refused<PeriodPlan>(refusal_);
  const std::vector<planner::SwapPolicy> all = planner::published_swap_policies();
  const std::string_view name = searches() ? wire::default_policy : std::string_view(policy_);
  Result<SwapPlan> plan = find_policy(all, name)->plan(step_.trace, machine_);
  if (!plan) return refused<PeriodPlan>(fmt::format("{} has no plan: {}", policy_, plan.error));
  Result<PeriodPlan> judged = judge(std::move(*plan));
  if (searches()) {  // what is done on demand with knowledge of the future is a plan, too
    Result<PeriodPlan> demanded = judge({{step_.trace.name, policy_, {}}, Victims::belady});
    if (demanded && (!judged || demanded->step_us < judged->step_us)) judged = std::move(demanded);
  }
  if (judged) quick_us_ = judged->step_us;
  return judged;
}

std::optional<PeriodPlan> PeriodPlanner::better(const planner::SwapControl& control) {
  if (!searches()) return std::nullopt;
  const std::vector<planner::SwapPolicy> all = planner::swap_policies();
  Result<SwapPlan> plan = find_policy(all, policy_)->plan(step_.trace, machine_, control);
  if (!plan) return std::nullopt;
  Result<PeriodPlan> judged = judge(std::move(*plan));
  if (!judged || (quick_us_ > 0 && judged->step_us > worth_sending * quick_us_)) return std::nullopt;
  return std::move(*judged);
}

}  // namespace terrace::daemon
