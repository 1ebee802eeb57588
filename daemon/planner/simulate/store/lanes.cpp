#include "daemon/planner/simulate/store/lanes.h"

namespace terrace::planner {

wire::ExecutorPlan Lanes::plan_of(const wire::Schedule& schedule, const Program& program) {
  wire::ExecutorPlan plan;
  plan.entries = schedule.entries;
  plan.objects = program.objects;
  plan.period = static_cast<std::uint32_t>(program.op_run.size());
  plan.out_order = schedule.out_order;
  plan.in_order = schedule.in_order;
  plan.links = program.routes;
  plan.extra = 2 * static_cast<std::uint32_t>(program.objects.size());
  return plan;
}

Lanes::Lanes(const wire::Schedule& schedule, const Program& program)
    : entries_(static_cast<std::uint32_t>(schedule.entries.size())),
      memory_(std::make_unique_for_overwrite<std::byte[]>(
          wire::Executor::memory_bytes(plan_of(schedule, program)))),
      executor_(plan_of(schedule, program), memory_.get()),
      requests_(plan_of(schedule, program).nodes()),
      lanes_(std::size_t{program.routes} * 2) {}

Lanes::Asked Lanes::ask(std::uint32_t lane, std::uint32_t node, const Request& request, bool urgent) {
  if (!executor_.is_under_way(node)) requests_[node] = request;
  const std::uint32_t link = lane / 2;
  if (!is_on_demand(node)) return executor_.ask(node, link);
  return executor_.ask_extra(node, {.object = request.tensor,
                                    .way = Network::is_in(lane) ? Way::in : Way::out,
                                    .link = link,
                                    .urgent = urgent});
}

void Lanes::hurry(std::uint32_t tensor, double now_us) {
  const std::uint32_t node = executor_.waiting_of(tensor);
  requests_[node].queued_us = now_us;
  executor_.hurry(node);
}

void Lanes::call_off(std::uint32_t tensor) {
  const std::uint32_t node = executor_.waiting_of(tensor);
  if (node != wire::Executor::none) executor_.call_off(node);
}

const Lanes::Request* Lanes::front(std::uint32_t lane) const {
  const std::uint32_t node = executor_.next(lane);
  return node == wire::Executor::none ? nullptr : &requests_[node];
}

const Lanes::Request& Lanes::start(std::uint32_t lane, double now_us) {
  const std::uint32_t node = executor_.next(lane);
  executor_.start(node);
  lanes_[lane] = {node, ++starts_, now_us};
  return requests_[node];
}

void Lanes::record(std::uint32_t lane, bool in, bool aborted, double end_us, Recording* recording) const {
  const Lane& l = lanes_[lane];
  const Request& r = requests_[l.active];
  recording->transfer(
      {r.tensor, r.tier, in, is_on_demand(l.active), aborted, r.stored, r.queued_us, l.start_us, end_us},
      l.number);
}

}  // namespace terrace::planner
