// See plans.h.
#include "daemon/packets/plans.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <utility>

namespace terrace::daemon {

// The memfd is received and looked at by the thread that looks at pool files; its content is read where it is
// planned.
std::string Plans::period(ConnectionId id, const Packet& packet) {
  Connection& connection = handling_.connections.at(id);
  const auto message = wire::read_as<wire::Period>(packet.bytes);
  if (!handling_.registry.find(connection.session)->takes_schedules)
    return "a period of a job that takes no schedules";
  if (!packet.brings_files) return "a period without a descriptor";
  if (message.reserved != 0 || message.image_bytes < sizeof(wire::PeriodHeader) ||
      message.image_bytes > wire::most_period_bytes)
    return "a period of a size that none has";
  if (!connection.period_limit.allow(handling_.loop.now_ns())) return "more than one period a second";
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its period";
  connection.period = message;
  handling_.connections.update_interest(id);
  handling_.files.inspect_period(id, connection.peer().uid, std::move(duplicate), message.image_bytes);
  return {};
}

void Plans::inspected(ConnectionId id, PeriodFile file) {
  Connection& connection = handling_.connections.at(id);
  const wire::Period message = *std::exchange(connection.period, std::nullopt);
  handling_.connections.update_interest(id);
  if (!file.problem.empty()) return handling_.connections.drop(id, "a period " + file.problem, true);
  PlanRequest request{connection.session,  connection.peer().uid, message.phase,
                      message.period_hash, std::move(file),       {handling_.config.policy}};
  if (const std::uint64_t pool = handling_.registry.pools().capacity_bytes(connection.session); pool != 0)
    request.settings.pool_bytes = pool;
  PlanResult none;
  none.session = connection.session;
  none.phase = message.phase;
  none.period_hash = message.period_hash;
  none.refusal = planning_.ask(std::move(request));
  if (!none.refusal.empty()) send(std::move(none));
}

void Plans::send() {
  for (PlanResult& result : planning_.results()) send(std::move(result));
}

// A job that reads so little that a descriptor cannot be sent at once goes without.
void Plans::send(PlanResult result) {
  Session* session = handling_.registry.find(result.session);
  Connection* connection = handling_.connections.of_session(result.session);
  if (session == nullptr || connection == nullptr) return;
  wire::PlannedSchedule message = wire::make<wire::PlannedSchedule>();
  message.phase = result.phase;
  message.period_hash = result.period_hash;
  message.budget_bytes = result.budget_bytes;
  message.image_bytes = result.image_bytes;
  wire::copy_text(message.text, sizeof message.text, result.refusal.c_str());
  if (!result.file) {
    handling_.connections.send_to(result.session, message);
  } else if (const int fd = result.file.get(); connection->send(&message, sizeof message, {&fd, 1}) != 0) {
    result.refusal = "the job does not read its messages";
  }
  if (handling_.registry.find(result.session) != nullptr) note(*session, result);
}

void Plans::note(Session& session, const PlanResult& result) {
  session.snapshot();
  SessionPlan& plan = session.plan;
  const bool is_new = plan.phase != result.phase || plan.period_hash != result.period_hash ||
                      plan.refusal != result.refusal || plan.policy != result.policy;
  plan = {result.policy,
          result.refusal,
          result.phase,
          result.period_hash,
          result.budget_bytes,
          result.plan.entries,
          result.plan.step_us / 1e6,
          result.plan.on_demand_us / 1e6,
          session.counter(wire::Stat::steps),
          session.counter(wire::Stat::steps_ns)};
  if (!is_new) return;
  handling_.registry.note(result.session, "plan",
                          plan.is_there()
                              ? fmt::format("{}: {} moves, {:.3g} s a step predicted", plan.policy,
                                            plan.entries, plan.predicted_step_seconds)
                              : "none: " + plan.refusal,
                          handling_.loop.now_ns());
}

}  // namespace terrace::daemon
