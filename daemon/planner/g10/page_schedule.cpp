// A tensor schedule under G10's rules; see page_schedule.h.
#include "daemon/planner/g10/page_schedule.h"

#include <algorithm>
#include <optional>
#include <string>

#include "daemon/planner/g10/intervals.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

using wire::Action;

bool op_names_tensor(const wire::TraceOp& op, std::uint32_t tensor) {
  const auto holds = [tensor](const std::vector<std::uint32_t>& list) {
    return std::find(list.begin(), list.end(), tensor) != list.end();
  };
  return holds(op.inputs) || holds(op.outputs);
}

PageAction eviction_to(const Machine& tiers, std::uint32_t tier) {
  const auto route = std::find_if(tiers.routes.begin(), tiers.routes.end(),
                                  [tier](const Route& r) { return r.tier == tier; });
  return route->links.size() == 1 ? PageAction::evict_to_host : PageAction::evict_to_ssd;
}

PageScheduleEntry entry_of(const wire::Trace& trace, const Machine& tiers, const wire::ScheduleEntry& e) {
  if (e.action == Action::in) return {e.at, PageAction::fetch, e.object};
  if (e.action == Action::drop) return {e.at, PageAction::release, e.object};
  const bool read = e.at < trace.ops.size() && op_names_tensor(trace.ops[e.at], e.object);
  return {e.at + (read ? 1 : 0), eviction_to(tiers, e.tier), e.object};
}

std::string unknown_here(const wire::Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.entries.size(); ++i) {
    const wire::ScheduleEntry& e = schedule.entries[i];
    const std::string place = "entry " + std::to_string(i) + ": ";
    if (e.action == Action::redo) return place + "G10's rules have no recomputation";
    if (e.action == Action::stage) return place + "G10's rules have no way between far tiers";
    if (e.action == Action::wait) return place + "G10's rules have no wait";
    if (e.codec != 0) return place + "G10's rules have no codec";
  }
  return {};
}

// Allocations and releases as G10's plan has them where memory is short; workspaces, too.
std::vector<PageScheduleEntry> lives(const g10::Workload& workload, const G10Machine& machine) {
  const std::vector<double> begin_us = g10::begin_times(workload, machine);
  std::vector<PageScheduleEntry> entries;
  for (std::uint32_t i = 0; i < workload.tensors.size(); ++i) {
    const g10::Tensor& tensor = workload.tensors[i];
    if (tensor.global || tensor.death == 0) continue;
    entries.push_back({g10::allocation_op(tensor, begin_us, machine), PageAction::fetch, i});
    entries.push_back({tensor.death, PageAction::release, i});
  }
  return entries;
}

}  // namespace

Result<PageSchedule> page_schedule(const wire::Trace& trace, const Machine& tiers,
                                   const wire::Schedule& schedule, const G10Machine& machine) {
  const auto workload = g10::make_workload(trace, machine, {});
  if (!workload) return refused<PageSchedule>(workload.error);
  std::string problem = check_machine(tiers);
  if (problem.empty()) problem = check_entries(trace, tiers, schedule);
  if (problem.empty()) problem = unknown_here(schedule);
  if (!problem.empty()) return refused<PageSchedule>(std::move(problem));
  PageSchedule pages{lives(*workload, machine), PageVictims::oldest};
  for (const wire::ScheduleEntry& e : schedule.entries) pages.entries.push_back(entry_of(trace, tiers, e));
  // At one operation the dead leave before anybody comes, then the schedule's own order.
  std::stable_sort(pages.entries.begin(), pages.entries.end(), [](const auto& a, const auto& b) {
    const bool a_leaves = a.action == PageAction::release, b_leaves = b.action == PageAction::release;
    return a.op != b.op ? a.op < b.op : a_leaves && !b_leaves;
  });
  return ok(std::move(pages));
}

}  // namespace terrace::planner
