#include "daemon/planning/completed_plan.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "daemon/planner/schedule_period.h"

namespace terrace::daemon {
namespace {

using planner::SimulationReport;
using planner::SwapPlan;
using wire::Action;
using wire::ScheduleEntry;

// Of how many of its own lengths a way back begins before it is needed: its link may be busy.
constexpr double lengths_ahead = 2;

class Completer {
 public:
  Completer(const wire::Trace& trace, const SwapPlan& plan, const SimulationReport& report)
      : trace_(trace),
        report_(report),
        plan_(plan),
        uses_(trace.tensors.size()),
        outs_(trace.tensors.size()) {
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
      for (const std::uint32_t t : trace.ops[op].inputs) note_use(t, op);
      for (const std::uint32_t t : trace.ops[op].outputs) note_use(t, op);
    }
    for (const ScheduleEntry& e : plan.entries)
      if (e.action == Action::out) outs_[e.object].push_back(e.at);
  }

  SwapPlan build() {
    // Ways out first: a way back begins behind its way out.
    for (const planner::CopyUse& copy : report_.copies)
      if (copy.kind == planner::CopyUse::Kind::left_to_it) leave_clean(copy);
    for (const planner::Transfer& transfer : report_.transfers)
      if (transfer.on_demand && !transfer.aborted && !transfer.in) leave(transfer);
    for (std::vector<std::uint32_t>& outs : outs_) std::sort(outs.begin(), outs.end());
    for (const planner::Transfer& transfer : report_.transfers)
      if (transfer.on_demand && !transfer.aborted && transfer.in) come_back(transfer);
    finish();
    return std::move(plan_);
  }

 private:
  const wire::Trace& trace_;
  const SimulationReport& report_;
  SwapPlan plan_;
  std::vector<std::vector<std::uint32_t>> uses_, outs_;  // by tensor: operations, and positions of ways out

  std::uint32_t ops() const { return static_cast<std::uint32_t>(trace_.ops.size()); }
  void note_use(std::uint32_t tensor, std::uint32_t op) {
    std::vector<std::uint32_t>& uses = uses_[tensor];
    if (uses.empty() || uses.back() != op) uses.push_back(op);
  }

  // The operation that runs then, or waits; of a time before the step, of what is the same in each step, that
  // of the step before.
  std::uint32_t op_at(double us) const {
    if (us < 0) us += report_.total_us;
    const auto behind =
        std::upper_bound(report_.ops.begin(), report_.ops.end(), us,
                         [](double t, const planner::OpTiming& op) { return t < op.ready_us; });
    return behind == report_.ops.begin() ? 0 : static_cast<std::uint32_t>(behind - report_.ops.begin()) - 1;
  }
  // The last use before operation `op`, which may use it itself.
  std::optional<std::uint32_t> use_before(std::uint32_t tensor, std::uint32_t op) const {
    const auto at = std::lower_bound(uses_[tensor].begin(), uses_[tensor].end(), op);
    if (at == uses_[tensor].begin()) return std::nullopt;
    return *std::prev(at);
  }
  std::optional<std::uint32_t> use_from(std::uint32_t tensor, std::uint32_t op) const {
    const auto at = std::lower_bound(uses_[tensor].begin(), uses_[tensor].end(), op);
    if (at == uses_[tensor].end()) return std::nullopt;
    return *at;
  }

  void add(Action action, std::uint32_t tensor, std::uint32_t at) {
    ScheduleEntry entry;
    entry.at = at;
    entry.object = tensor;
    entry.action = action;
    entry.tier = 1;
    plan_.entries.push_back(entry);
    if (action == Action::out) outs_[tensor].push_back(at);
  }

  // A copy lies below: it goes the moment its room is wanted, and so right behind its use.
  void leave_clean(const planner::CopyUse& copy) {
    const auto wanted = std::min(copy.runs_ended, ops() - 1);
    const auto last = use_before(copy.tensor, wanted + 1);
    if (!last && !trace_.tensors[copy.tensor].persistent) return;
    const std::uint32_t from = last ? *last + 1 : 0;
    if (from > wanted || is_planned_out(copy.tensor, from, wanted + 1)) return;
    add(Action::out, copy.tensor, wanted);
  }
  bool is_planned_out(std::uint32_t tensor, std::uint32_t from, std::uint32_t to) const {
    return std::any_of(outs_[tensor].begin(), outs_[tensor].end(),
                       [&](std::uint32_t at) { return from <= at && at <= to; });
  }

  // Over by when its room was asked for.
  void leave(const planner::Transfer& transfer) {
    if (transfer.queued_us < 0) return;  // begun in the step before, where it is told, too
    const std::uint32_t wanted = op_at(transfer.queued_us);
    const double begin_us = transfer.queued_us - (transfer.end_us - transfer.start_us);
    const auto last = use_before(transfer.tensor, wanted);
    const std::uint32_t earliest = last ? *last + 1 : 0;
    const std::uint32_t wished = begin_us < 0 ? 0 : op_at(begin_us) + 1;
    add(Action::out, transfer.tensor, std::clamp(wished, std::min(earliest, wanted), wanted));
  }

  void come_back(const planner::Transfer& transfer) {
    if (transfer.queued_us < 0) return;
    const auto needed = use_from(transfer.tensor, op_at(transfer.queued_us));
    if (!needed) return;
    const double begin_us =
        report_.ops[*needed].ready_us - lengths_ahead * (transfer.end_us - transfer.start_us);
    const auto last = use_before(transfer.tensor, *needed);
    const bool began_before = !last && trace_.tensors[transfer.tensor].persistent && begin_us < 0;
    if (began_before) return come_back_early(transfer.tensor, begin_us);
    const std::uint32_t earliest = std::max(last ? *last + 1 : 0, behind_way_out(transfer.tensor, *needed));
    const std::uint32_t wished = begin_us < 0 ? 0 : op_at(begin_us) + 1;
    add(Action::in, transfer.tensor, std::clamp(wished, std::min(earliest, *needed), *needed));
  }
  // Of what persists and is used first in a step: at the end of the step before.
  void come_back_early(std::uint32_t tensor, double begin_us) {
    const std::uint32_t last = uses_[tensor].back();
    const std::uint32_t earliest = std::max(last + 1, behind_way_out(tensor, ops()));
    if (earliest >= ops()) return add(Action::in, tensor, 0);
    add(Action::in, tensor, std::max(op_at(begin_us), earliest));
  }
  std::uint32_t behind_way_out(std::uint32_t tensor, std::uint32_t before) const {
    const auto at = std::lower_bound(outs_[tensor].begin(), outs_[tensor].end(), before);
    return at == outs_[tensor].begin() ? 0 : *std::prev(at) + 1;
  }

  // In order, each once; deadlines anew, as uses have not changed.
  void finish() {
    std::vector<ScheduleEntry>& entries = plan_.entries;
    std::stable_sort(entries.begin(), entries.end(),
                     [](const ScheduleEntry& a, const ScheduleEntry& b) { return a.at < b.at; });
    planner::give_deadlines(trace_, &plan_);
  }
};

}  // namespace

SwapPlan completed(const wire::Trace& trace, const SwapPlan& plan, const SimulationReport& report) {
  return Completer(trace, plan, report).build();
}

}  // namespace terrace::daemon
