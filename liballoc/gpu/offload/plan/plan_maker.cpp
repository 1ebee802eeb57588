#include "liballoc/gpu/offload/plan/plan_maker.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/policies/policies.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::liballoc::offload {
namespace {

using planner::Machine;
using wire::Schedule;
using wire::Trace;

constexpr std::string_view best = "best";

struct Planner {
  std::string_view name;
  Result<Schedule> (*solve)(const Trace&, const Machine&);
};

constexpr std::array<Planner, 3> planners{{{"g10", planner::plan_g10},
                                           {"capuchin_swap", planner::plan_capuchin_swap},
                                           {"sentinel_interval", planner::plan_sentinel_interval}}};

void add_uses(const StepShape& shape, Trace* trace) {
  for (std::uint32_t number = 0; number < shape.tensors.size(); ++number) {
    const StepTensor& tensor = shape.tensors[number];
    trace->ops[tensor.saved_at - 1].outputs.push_back(number);
    if (tensor.first_wanted == StepTensor::never) {  // held until the step ends
      trace->ops.back().inputs.push_back(number);
      continue;
    }
    trace->ops[tensor.first_wanted].inputs.push_back(number);
    if (tensor.last_wanted != tensor.first_wanted) trace->ops[tensor.last_wanted].inputs.push_back(number);
  }
}

bool is_carried_out(const Schedule& schedule) {
  return std::all_of(schedule.entries.begin(), schedule.entries.end(), [](const wire::ScheduleEntry& entry) {
    return wire::moves(entry.action) && entry.codec == 0 && entry.begin == 0 &&
           entry.bytes == wire::whole_object;
  });
}

// With its prediction, of a step that follows one like it.
Result<Schedule> solved(const Planner& planner, const Trace& trace, const Machine& machine) {
  Result<Schedule> schedule = planner.solve(trace, machine);
  if (!schedule) return schedule;
  if (!is_carried_out(*schedule))
    return refused<Schedule>("its plan has other entries than moves of whole tensors");
  planner::describe(trace, &*schedule);
  planner::SimulationOptions options;
  options.victims = planner::Victims::belady;
  options.steps = 2;
  options.with_bounds = false;
  const Result<planner::SimulationReport> report = planner::simulate(trace, machine, *schedule, options);
  if (!report) return refused<Schedule>(report.error);
  schedule->clock = wire::Clock::saves;
  schedule->predicted = planner::prediction_of(*report);
  return schedule;
}

Result<Schedule> solved_by(std::string_view policy, const Trace& trace, const Machine& machine) {
  Result<Schedule> chosen = refused<Schedule>("no policy of that name");
  double least_us = std::numeric_limits<double>::infinity();
  for (const Planner& planner : planners) {
    if (policy != best && policy != planner.name) continue;
    Result<Schedule> schedule = solved(planner, trace, machine);
    const bool is_better = schedule && schedule->predicted.step_us < least_us;
    if (is_better) least_us = schedule->predicted.step_us;
    if (is_better || !chosen) chosen = std::move(schedule);
  }
  return chosen;
}

}  // namespace

const std::vector<std::string_view>& plan_policies() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all{"heuristic", best};
    for (const Planner& planner : planners) all.push_back(planner.name);
    return all;
  }();
  return names;
}

Trace trace_of(const PlanRequest& request) {
  Trace trace;
  trace.name = "the step";
  trace.ops.resize(request.shape.events.size());
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    trace.ops[i].name = "interval " + std::to_string(i);
    trace.ops[i].time_us = request.busy_us[i];
    trace.ops[i].recomputable = false;
  }
  for (const StepTensor& tensor : request.shape.tensors) {
    wire::TraceTensor traced;
    traced.id = trace.tensors.size();
    traced.bytes = tensor.stays ? 0 : tensor.bytes;  // what is empty never moves
    traced.kind = wire::TensorKind::activation;
    trace.tensors.push_back(traced);
  }
  add_uses(request.shape, &trace);
  return trace;
}

Machine machine_of(const PlanRequest& request) {
  Machine machine;
  machine.name = "the device";
  machine.tiers = {{"gpu", request.room_bytes}, {"dram", request.dram_bytes}};
  machine.links = {{"link", request.in.bytes_per_second, request.out.bytes_per_second, request.in.latency_us,
                    request.out.latency_us}};
  machine.routes = {{1, {0}}};
  if (request.nvme_bytes == 0) return machine;
  machine.tiers.push_back({"nvme", request.nvme_bytes});
  machine.links.push_back({"drive", request.drive_in.bytes_per_second, request.drive_out.bytes_per_second,
                           request.drive_in.latency_us, request.drive_out.latency_us});
  machine.routes.push_back({2, {0, 1}});
  return machine;
}

Result<Plan> make_plan(PlanRequest request) {
  Result<Schedule> schedule = solved_by(request.policy, trace_of(request), machine_of(request));
  if (!schedule) return refused<Plan>(std::move(schedule.error));
  return ok(Plan{std::move(request.shape), request.room_bytes, std::move(*schedule)});
}

}  // namespace terrace::liballoc::offload
