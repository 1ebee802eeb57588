// A step from begin to end, and what must hold before it begins.
#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/run/runner.h"
#include "daemon/planner/variants.h"

namespace terrace::planner {

Result<SimulationReport> Runner::run() {
  bool going = place_persistent();
  for (step_ = 0; going && step_ < options_.steps; ++step_) going = step();
  if (!going) return refused<SimulationReport>(error_);
  report_.total_us = now() - base_us_;
  report_.stall_rule = options_.stall_rule;
  if (options_.with_bounds) report_.bounds = lower_bounds(trace_, machine_);
  store_.end_report(&report_);
  return ok(std::move(report_));
}

bool Runner::fail(std::string why) {
  error_ = std::move(why);
  return false;
}

std::string Runner::run_name(const Run& run) const {
  return (run.again ? "recomputing operation " : "operation ") + std::to_string(run.op) + " ('" +
         trace_.ops[run.op].name + "')";
}

bool Runner::place_persistent() {
  for (std::uint32_t t = 0; t < trace_.tensors.size(); ++t) {
    if (!trace_.tensors[t].persistent) continue;
    content_[t] = Content::held;
    const std::uint32_t tier = store_.bytes(t) == 0 ? 0 : first_tier_for(store_.bytes(t));
    if (tier == machine_.tiers.size()) {
      return fail("persistent " + tensor_name(t) + " of " + std::to_string(store_.bytes(t)) +
                  " bytes has no room in tier " + std::to_string(options_.initial_tier) + " or any below");
    }
    store_.place_at_start(t, tier);
    store_.touch(t, belady_key(t, 0));
  }
  return true;
}

std::uint32_t Runner::first_tier_for(std::uint64_t bytes) const {
  std::uint32_t tier = options_.initial_tier;
  for (; tier < machine_.tiers.size(); ++tier) {
    const bool reachable = tier == 0 || (p_.route_of_tier[tier] != no_run && !machine_.is_inside(tier));
    const std::uint64_t used = store_.room().used(tier);
    const std::uint64_t capacity = machine_.tiers[tier].capacity_bytes;
    if (reachable && used <= capacity && bytes <= capacity - used) break;
  }
  return tier;
}

bool Runner::step() {
  if (step_ + 1 == options_.steps) begin_report();
  std::fill(cursor_.begin(), cursor_.end(), 0);
  wire::Executor& executor = store_.executor();
  if (step_ > 0) executor.begin_period();
  for (std::uint32_t op = 0; op <= trace_.ops.size(); ++op) {
    executor.advance(op);
    for (std::uint32_t e = executor.take(); e != wire::Executor::none; e = executor.take())
      if (!obey(e)) return false;
    if (op < trace_.ops.size() && !perform(p_.op_run[op])) return false;
  }
  for (std::uint32_t t = 0; t < trace_.tensors.size(); ++t) {
    if (trace_.tensors[t].persistent && content_[t] != Content::held) {
      return fail("persistent " + tensor_name(t) + " was dropped, and the next step needs it");
    }
  }
  return true;
}

void Runner::begin_report() {
  base_us_ = now();
  recording_ = options_.record_timeline;
  store_.begin_report(recording_);
}

std::int64_t Runner::belady_key(std::uint32_t t, std::uint32_t past_uses) const {
  const std::span<const std::uint32_t> uses = p_.uses_of(t);
  if (uses.empty()) return std::numeric_limits<std::int64_t>::min();
  const bool later = past_uses < uses.size();
  const std::int64_t runs = static_cast<std::int64_t>(p_.runs.size());
  return -(runs * (step_ + (later ? 0 : 1)) + uses[later ? past_uses : 0]);
}

namespace {

std::string check_inputs(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule,
                         const SimulationOptions& options) {
  if (std::string wrong = check_machine(machine); !wrong.empty()) return wrong;
  if (std::string wrong = check_trace(trace); !wrong.empty()) return wrong;
  if (std::string wrong = check_entries(trace, machine, schedule); !wrong.empty()) return wrong;
  if (std::string wrong = check_variants(trace, schedule.variants); !wrong.empty()) return wrong;
  if (std::string wrong = check_operations(trace, schedule.operations); !wrong.empty()) return wrong;
  if (options.steps == 0) return "no step is simulated; ask for at least one";
  if (options.initial_tier >= machine.tiers.size()) return "the initial tier does not exist";
  if (machine.is_inside(options.initial_tier)) return "the initial tier lies inside tier 0; name another one";
  return {};
}

// The step in which each operation has the cost of its variant; bounds stay those of all variants.
Result<SimulationReport> simulate_variants(const wire::Trace& trace, const Machine& machine,
                                           const wire::Schedule& schedule, SimulationOptions options) {
  wire::Schedule plain = schedule;
  plain.variants.clear();
  const bool with_bounds = std::exchange(options.with_bounds, false);
  Result<SimulationReport> report =
      simulate(with_variants(trace, schedule.variants), machine, plain, options);
  if (!report) return report;
  report->variants = schedule.variants;
  if (with_bounds) report->bounds = lower_bounds(trace, machine);
  return report;
}

// The step in the schedule's order, of which the bounds are, too.
Result<SimulationReport> simulate_in_order(const wire::Trace& trace, const Machine& machine,
                                           const wire::Schedule& schedule, const SimulationOptions& options) {
  wire::Schedule plain = schedule;
  plain.operations.clear();
  plain.variants = in_order(schedule.variants, schedule.operations);
  Result<SimulationReport> report = simulate(in_order(trace, schedule.operations), machine, plain, options);
  if (!report) return report;
  report->variants = schedule.variants;
  report->operations = schedule.operations;
  return report;
}

// On a machine with so much less of tier 0.
Result<SimulationReport> simulate_sparing(const wire::Trace& trace, const Machine& machine,
                                          const wire::Schedule& schedule, SimulationOptions options) {
  Machine smaller = machine;
  if (smaller.tiers[0].capacity_bytes != unlimited_bytes)
    smaller.tiers[0].capacity_bytes -= schedule.spare_bytes;
  wire::Schedule plain = schedule;
  plain.spare_bytes = 0;
  const bool with_bounds = std::exchange(options.with_bounds, false);
  Result<SimulationReport> report = simulate(trace, smaller, plain, options);
  if (report && with_bounds) report->bounds = lower_bounds(trace, machine);
  return report;
}

}  // namespace

Result<SimulationReport> simulate(const wire::Trace& trace, const Machine& machine,
                                  const wire::Schedule& schedule, const SimulationOptions& options) {
  if (std::string wrong = check_inputs(trace, machine, schedule, options); !wrong.empty()) {
    return refused<SimulationReport>(std::move(wrong));
  }
  if (!schedule.operations.empty()) return simulate_in_order(trace, machine, schedule, options);
  if (schedule.spare_bytes > 0) return simulate_sparing(trace, machine, schedule, options);
  if (!schedule.variants.empty()) return simulate_variants(trace, machine, schedule, options);
  const Result<Program> program = make_program(trace, machine, schedule);
  if (!program) return refused<SimulationReport>(program.error);
  return Runner(trace, machine, schedule, options, *program).run();
}

Result<SimulationReport> simulate_repeated(const wire::Trace& trace, const Machine& machine,
                                           const wire::Schedule& schedule, Victims victims,
                                           bool record_timeline) {
  SimulationOptions options;
  options.victims = victims;
  options.steps = 2;
  options.record_timeline = record_timeline;
  options.with_bounds = false;
  return simulate(trace, machine, schedule, options);
}

}  // namespace terrace::planner
