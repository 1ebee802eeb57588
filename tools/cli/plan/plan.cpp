// `terrace plan TRACE`, or `--job JOB`: where each buffer of a training step lies, and with a machine what
// moves when, by one policy or by all of them under one cost model.
//
// Every plan is checked by code that no policy shares. Ctrl-C keeps what was found: the tables and the files
// hold the best so far, the policies that had not begun are left out, and the exit code is the one that
// shells give a program ended by that signal (130 for SIGINT).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>

#include "daemon/planner/json_line.h"
#include "daemon/planner/order/scheduled.h"
#include "tools/cli/base/budget.h"
#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/plan/plan_curve.h"
#include "tools/cli/plan/plan_files.h"
#include "tools/cli/plan/plan_job.h"
#include "tools/cli/plan/plan_list.h"
#include "tools/cli/plan/plan_load.h"
#include "tools/cli/plan/plan_report.h"
#include "tools/cli/plan/search_watch.h"

namespace terrace::cli {

namespace {

// Drops what only pictures and the timeline of the best need: a step of 5,000 operations has megabytes of it.
void keep_one_timeline(std::vector<SwapRun>* runs) {
  const SwapRun* best = best_of(*runs);
  for (SwapRun& run : *runs) {
    if (&run == best || !run.report) continue;
    run.report->ops = {};
    run.report->transfers = {};
    run.report->memory = {};
    run.report->stays = {};
  }
}

void place_all(const std::vector<planner::ReusePolicy>& policies, PlanReport* report, SearchWatch& watch) {
  for (const planner::ReusePolicy& policy : policies) {
    if (SearchWatch::interrupted()) return;
    report->reuse.push_back(run_policy(policy, report->input->instance, report->limits, watch));
  }
}

void move_all(const std::vector<planner::SwapPolicy>& policies, const wire::Trace& trace,
              const planner::Machine& machine, PlanReport* report, SearchWatch& watch) {
  for (const planner::SwapPolicy& policy : policies) {
    if (SearchWatch::interrupted()) return;
    report->swap.push_back(run_policy(policy, trace, machine, report->limits, watch));
    keep_one_timeline(&report->swap);
  }
}

void offload_updates(const std::vector<planner::UpdatePolicy>& policies, const wire::Trace& trace,
                     const planner::Machine& machine, PlanReport* report, SearchWatch& watch) {
  for (const planner::UpdatePolicy& policy : policies) {
    if (SearchWatch::interrupted()) return;
    report->swap.push_back(run_policy(policy, trace, machine, report->limits, watch));
  }
}

StepBounds bounds_of(const wire::Trace& trace, const planner::Machine& machine, bool recomputes) {
  StepBounds bounds;
  bounds.moving = planner::step_bound(trace, machine);
  if (!recomputes) return bounds;
  planner::StepBoundOptions options;
  options.recomputes = true;
  bounds.recomputing = planner::step_bound(trace, machine, options);
  return bounds;
}

void bound_steps(PlanReport* report) {
  bool any = false;
  bool recomputes = false;
  for (const SwapRun& run : report->swap) {
    any |= run.report.has_value() && !run.of_another_step;
    recomputes |= run.report && run.report->recompute_us > 0;
  }
  if (!any || SearchWatch::interrupted()) return;
  const wire::Trace& trace = *report->input->trace;
  report->bounds = bounds_of(trace, *report->machine, recomputes);
  for (SwapRun& run : report->swap) {
    if (!run.report || run.report->operations.empty() || SearchWatch::interrupted()) continue;
    run.bounds_in_its_order = bounds_of(planner::in_order(trace, run.report->operations), *report->machine,
                                        run.report->recompute_us > 0);
  }
}

void run_all(const ChosenPolicies& chosen, PlanReport* report, SearchWatch& watch) {
  place_all(chosen.reuse, report, watch);
  if (report->input->trace != nullptr && report->machine != nullptr) {
    move_all(chosen.swap, *report->input->trace, *report->machine, report, watch);
    offload_updates(chosen.update, *report->input->trace, *report->machine, report, watch);
  }
  bound_steps(report);
  report->interrupted = SearchWatch::interrupted();
}

// A plan that the judge refuses is an error of ours, whatever else went well.
std::string first_wrong(const PlanReport& report) {
  for (const ReuseRun& run : report.reuse)
    if (!run.wrong.empty())
      return fmt::format("the placement of {} is wrong: {}", run.policy.name, run.wrong);
  for (const SwapRun& run : report.swap)
    if (!run.wrong.empty()) return fmt::format("the step of {} is wrong: {}", run.policy.name, run.wrong);
  return "";
}

bool has_step(const PlanReport& report) {
  return std::any_of(report.swap.begin(), report.swap.end(), [](const SwapRun& run) { return run.valid(); });
}

bool fits(const PlanReport& report) {
  if (report.limits.capacity_bytes == 0) return true;
  const ReuseRun* best = best_of(report.reuse);
  return has_step(report) ||
         (best != nullptr && best->placement->total_bytes <= report.limits.capacity_bytes);
}

int verdict(const PlanReport& report) {
  if (const std::string wrong = first_wrong(report); !wrong.empty()) return complain(exit_failure, wrong);
  if (report.interrupted) return exit_signalled + SearchWatch::signal_number();
  if (best_of(report.reuse) == nullptr && !has_step(report))
    return complain(exit_failure, "no policy has a plan; the table says why");
  if (!fits(report))
    return complain(exit_degraded, fmt::format("nothing fits into {} bytes", report.limits.capacity_bytes));
  return exit_ok;
}

int print_and_write(const PlanOptions& options, const PlanReport& report) {
  if (options.json)
    std::cout << planner::json_lines(plan_json(report), 2) << '\n';
  else
    std::cout << plan_tables(report, options.bytes);
  std::cout.flush();
  const PlanFiles files = write_plan_files(options, report);
  for (const std::string& path : files.written) fmt::print(stderr, "wrote {}\n", path);
  for (const std::string& error : files.errors) complain(exit_failure, error);
  const int code = verdict(report);
  return files.errors.empty() ? code : static_cast<int>(exit_failure);
}

// What can be told without a step. Empty: nothing is wrong.
std::string wrong_curve_options(const PlanOptions& options) {
  if (!options.budget_curve) return "";
  if (!options.capacity.empty() || !options.from.empty() || !options.perfetto.empty())
    return "--budget-curve goes with no --capacity, --from or --perfetto: it has many budgets";
  if (options.out.empty() != options.point.empty())
    return "--budget-curve has many budgets: --point SIZE says which one to write, and --out FILE says where";
  if (options.point.empty()) return "";
  const auto point = wire::parse_amount(options.point);
  return point ? "" : "--point: " + point.error;
}

// The policy of a curve: the one that is named, or the joint search.
Result<planner::SwapPolicy> curve_policy(const PlanOptions& options, const PlanInput& input,
                                         const planner::Machine* machine) {
  using planner::SwapPolicy;
  if (machine == nullptr)
    return refused<SwapPolicy>("--budget-curve needs a machine: name one with --machine");
  if (input.trace == nullptr)
    return refused<SwapPolicy>("--budget-curve: " + input.instance.name +
                               " holds lifetimes only, no operations: no machine can run it");
  const std::vector<SwapPolicy> all = planner::swap_policies();
  if (options.policies == std::vector<std::string>{"all"}) return ok(all.back());
  const auto chosen = choose_policies(options.policies, true);
  if (!chosen) return refused<SwapPolicy>(chosen.error);
  if (chosen->swap.size() != 1 || !chosen->reuse.empty())
    return refused<SwapPolicy>("--budget-curve: name one policy that moves, or none for the joint search");
  return ok(chosen->swap.front());
}

// What was recorded, of a job; nothing of it for a trace.
struct Recorded {
  std::optional<MeasuredPoint> measured;
  std::string program;
};

int write_point(const PlanOptions& options, const BudgetCurve& curve, const std::string& program) {
  const auto point = asked_point(curve, program);
  if (!point) return complain(exit_degraded, point.error);
  if (const std::string error = write_whole(options.out, point_json(*point)); !error.empty())
    return complain(exit_failure, error);
  fmt::print(stderr, "wrote {}; 'terrace run --plan {} --summary' runs at it and compares\n", options.out,
             options.out);
  return exit_ok;
}

int print_curve(const PlanOptions& options, const BudgetCurve& curve) {
  if (SearchWatch::interrupted() && curve.points.empty())
    return exit_signalled + SearchWatch::signal_number();
  if (curve.points.empty()) return complain(exit_degraded, "no budget has a plan: " + curve.why_not);
  if (options.json)
    std::cout << planner::json_lines(curve_json(curve), 1) << '\n';
  else
    std::cout << curve_table(curve, options.bytes);
  std::cout.flush();
  if (!options.plot.empty()) {
    const auto drawn = plot_budgets(options.plot, curve);
    if (!drawn) return complain(exit_failure, "--plot: " + drawn.error);
    for (const std::string& path : *drawn) fmt::print(stderr, "wrote {}\n", path);
  }
  return SearchWatch::interrupted() ? exit_signalled + SearchWatch::signal_number()
                                    : static_cast<int>(exit_ok);
}

// Work that did not end still reads what this function's callers own.
[[noreturn]] void end_at_once(int code) {
  std::cout.flush();
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

int carry_out(const PlanOptions& options, const PlanInput& input, planner::Machine* machine,
              const PlanLimits& limits) {
  const auto chosen = choose_policies(options.policies, machine != nullptr);
  if (!chosen) return complain(exit_usage, chosen.error);
  if (chosen->moves() && input.trace == nullptr)
    return complain(exit_usage,
                    fmt::format("{} holds lifetimes only, no operations: no machine can run it; leave "
                                "--machine out",
                                input.instance.name));
  const auto is_joint = [](const planner::SwapPolicy& p) { return p.name == "joint"; };
  if (limits.from && std::none_of(chosen->swap.begin(), chosen->swap.end(), is_joint))
    return complain(exit_usage, "--from: only the policy joint begins with a plan; name it with --policy");
  if (const std::string why = output_without_policy(options, *chosen); !why.empty())
    return complain(exit_usage, why);
  if (const std::string why = output_without_folder(options); !why.empty())
    return complain(exit_failure, why);
  if (machine != nullptr && limits.capacity_bytes != 0)
    machine->tiers.front().capacity_bytes = limits.capacity_bytes;
  PlanReport report{&input, machine, limits, options.seconds, {}, {}, false};
  SearchWatch watch(options.seconds, isatty(STDERR_FILENO) == 1);
  run_all(*chosen, &report, watch);
  const int code = print_and_write(options, report);
  if (watch.left_behind()) end_at_once(code);
  return code;
}

int carry_out_curve(const PlanOptions& options, const PlanInput& input, const planner::Machine* machine,
                    const PlanLimits& limits, const Recorded& recorded) {
  const auto policy = curve_policy(options, input, machine);
  if (!policy) return complain(exit_usage, policy.error);
  if (const std::string why = output_without_folder(options); !why.empty())
    return complain(exit_failure, why);
  std::optional<wire::Amount> asked;
  if (!options.point.empty()) asked = *wire::parse_amount(options.point);  // as wrong_curve_options() did
  SearchWatch watch(options.seconds, isatty(STDERR_FILENO) == 1);
  const BudgetCurve curve =
      budget_curve(*policy, *input.trace, *machine, limits, watch, recorded.measured, asked);
  int code = print_curve(options, curve);
  if (code == exit_ok && asked) code = write_point(options, curve, recorded.program);
  if (watch.left_behind()) end_at_once(code);
  return code;
}

Result<PlanLimits> limits_of(const PlanOptions& options) {
  PlanLimits limits;
  limits.seed = options.seed;
  if (options.capacity.empty()) return ok(limits);
  const auto capacity = parse_size(options.capacity);
  if (!capacity) return refused<PlanLimits>("--capacity: " + capacity.error);
  if (*capacity == 0) return refused<PlanLimits>("--capacity 0: nothing fits into 0 bytes; give more");
  limits.capacity_bytes = *capacity;
  return ok(limits);
}

int plan_input(const PlanOptions& options, PlanInput* input, planner::Machine* machine, PlanLimits limits,
               const Recorded& recorded) {
  if (const std::string why = put_in_order(input, options.order); !why.empty())
    return complain(exit_usage, why);
  if (!options.from.empty()) {
    Loaded<planner::SwapPlan> earlier = load_plan(options.from, *input, *machine);
    if (!earlier.result) return complain(earlier.exit_code, "--from: " + earlier.result.error);
    limits.from = std::move(*earlier.result);
  }
  if (options.budget_curve) return carry_out_curve(options, *input, machine, limits, recorded);
  return carry_out(options, *input, machine, limits);
}

// What was recorded and which machine it takes is said on standard error, so that JSON stays alone.
int plan_job(const PlanOptions& options, planner::Machine* machine, const PlanLimits& limits) {
  if (const std::string why = output_without_folder(options); !why.empty())
    return complain(exit_failure, why);
  RecordedStep step;
  if (const int code = record_step(options.record, &step); code != exit_ok) return code;
  fmt::print(stderr, "{}\n", step.about);
  if (machine == nullptr) fmt::print(stderr, "{}\n", step.machine.about);
  return plan_input(options, &step.input, machine != nullptr ? machine : &step.machine.machine, limits,
                    {step.measured, step.program});
}

}  // namespace

int plan(const PlanOptions& options) {
  if (options.list) {
    std::cout << policy_table() << '\n' << machine_table();
    return exit_ok;
  }
  if (options.trace.empty() && options.record.job.empty())
    return complain(exit_usage,
                    "plan: name a step, with terrace plan TRACE, or with --job JOB for the step of a running "
                    "job; 'terrace plan --list' lists policies and machines");
  if (!std::isfinite(options.seconds)) return complain(exit_usage, "--time: expected a number of seconds");
  if (const std::string why = wrong_curve_options(options); !why.empty()) return complain(exit_usage, why);
  const auto limits = limits_of(options);
  if (!limits) return complain(exit_usage, limits.error);
  Loaded<planner::Machine> machine;
  if (!options.machine.empty()) machine = load_machine(options.machine);
  if (machine.exit_code != exit_ok) return complain(machine.exit_code, machine.result.error);
  planner::Machine* const chosen = machine.result ? &*machine.result : nullptr;
  if (!options.record.job.empty()) return plan_job(options, chosen, *limits);
  Loaded<PlanInput> input = load_plan_input(options.trace);
  if (!input.result) return complain(input.exit_code, input.result.error);
  return plan_input(options, &*input.result, chosen, *limits, {});
}

}  // namespace terrace::cli
