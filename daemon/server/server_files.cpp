// Pool files and periods that clients send, and what is planned from those; see received_files.h for why the
// loop neither receives nor looks at them.
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include "daemon/base/size.h"
#include "daemon/server/server.h"

namespace terrace::daemon {

// The greeting waits until its pool file was looked at. Nothing is read meanwhile but by the thread that
// looks.
std::string Server::inspect_pool(ConnectionId id, const wire::Hello& hello) {
  Connection& connection = *connections_.at(id);
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its pool file";
  connection.role = Connection::Role::inspected;
  connection.waiting = hello;
  poller_.change(connection.fd(), tag_of(tag_connection, id), 0);
  door_.files().inspect(id, connection.peer().uid, std::move(duplicate));
  return {};
}

void Server::take_inspected() {
  for (ReceivedFiles::Result& result : door_.files().results()) {
    take_inspected(&result);
    door_.files().give_back(result.uid, std::move(result.file));
    if (result.period.descriptor) door_.files().close(result.uid, std::move(result.period.descriptor));
  }
}

// A period that is to be planned is taken out of the result.
void Server::take_inspected(ReceivedFiles::Result* result) {
  const auto found = connections_.find(result->ticket);
  if (found == connections_.end()) return;  // it did not wait
  Connection& connection = *found->second;
  if (connection.period) return take_period(result->ticket, std::move(result->period));
  if (connection.nvm) return take_nvm(result->ticket, result->file);
  connection.role = Connection::Role::fresh;
  poller_.change(connection.fd(), tag_of(tag_connection, result->ticket), EPOLLIN | EPOLLRDHUP);
  const wire::Hello hello = *std::exchange(connection.waiting, std::nullopt);
  if (const auto fault = greet(result->ticket, hello, result->file); !fault.empty())
    drop(result->ticket, fault, true);
}

// The memfd is received and looked at by the thread that looks at pool files; its content is read where it is
// planned.
std::string Server::inspect_period(ConnectionId id, const Packet& packet) {
  Connection& connection = *connections_.at(id);
  const auto message = wire::read_as<wire::Period>(packet.bytes);
  if (!registry_->find(connection.session)->takes_schedules)
    return "a period of a job that takes no schedules";
  if (!packet.brings_files) return "a period without a descriptor";
  if (message.reserved != 0 || message.image_bytes < sizeof(wire::PeriodHeader) ||
      message.image_bytes > wire::most_period_bytes)
    return "a period of a size that none has";
  if (!connection.period_limit.allow(now_ns_)) return "more than one period a second";
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its period";
  connection.period = message;
  update_interest(id, connection);
  door_.files().inspect_period(id, connection.peer().uid, std::move(duplicate), message.image_bytes);
  return {};
}

// As with a pool file, but that its session is there already.
std::string Server::inspect_nvm(ConnectionId id, const Packet& packet) {
  Connection& connection = *connections_.at(id);
  if (!packet.brings_files) return "NVM of an earlier terraced without its file";
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its file on NVM";
  connection.nvm = wire::read_as<wire::NvmHeld>(packet.bytes);
  update_interest(id, connection);
  door_.files().inspect(id, connection.peer().uid, std::move(duplicate));
  return {};
}

// Less may be left than it had.
void Server::take_nvm(ConnectionId id, const std::optional<PoolFile>& file) {
  Connection& connection = *connections_.at(id);
  const wire::NvmHeld held = *std::exchange(connection.nvm, std::nullopt);
  update_interest(id, connection);
  const SessionId session = connection.session;
  if (const auto refusal = registry_->hold_nvm(session, held, file))
    return drop(id, "NVM of an earlier terraced: " + refusal->reason, true);
  if (!registry_->nvm()) return;
  spdlog::info("job \"{}\": process {} is back with {} of NVM", registry_->find(session)->job().name,
               connection.peer().pid, format_size(registry_->nvm()->capacity_bytes(session)));
  send_nvm_limit(session, registry_->nvm()->limit_bytes(session));
}

void Server::take_period(ConnectionId id, PeriodFile file) {
  Connection& connection = *connections_.at(id);
  const wire::Period message = *std::exchange(connection.period, std::nullopt);
  update_interest(id, connection);
  if (!file.problem.empty()) return drop(id, "a period " + file.problem, true);
  PlanRequest request{connection.session,  connection.peer().uid, message.phase,
                      message.period_hash, std::move(file),       {options_.config.policy}};
  if (const std::uint64_t pool = registry_->pools().capacity_bytes(connection.session); pool != 0)
    request.settings.pool_bytes = pool;
  PlanResult none;
  none.session = connection.session;
  none.phase = message.phase;
  none.period_hash = message.period_hash;
  none.refusal = planning_.ask(std::move(request));
  if (!none.refusal.empty()) take_plan(std::move(none));
}

void Server::take_plans() {
  for (PlanResult& result : planning_.results()) take_plan(std::move(result));
}

// A job that reads so little that a descriptor cannot be sent at once goes without.
void Server::take_plan(PlanResult result) {
  Session* session = registry_->find(result.session);
  const auto found = session_connections_.find(result.session);
  if (session == nullptr || found == session_connections_.end()) return;
  wire::PlannedSchedule message = wire::make<wire::PlannedSchedule>();
  message.phase = result.phase;
  message.period_hash = result.period_hash;
  message.budget_bytes = result.budget_bytes;
  message.image_bytes = result.image_bytes;
  wire::copy_text(message.text, sizeof message.text, result.refusal.c_str());
  if (!result.file) {
    send_to_session(result.session, message);
  } else if (const int fd = result.file.get();
             connections_.at(found->second)->send(&message, sizeof message, {&fd, 1}) != 0) {
    result.refusal = "the job does not read its messages";
  }
  if (registry_->find(result.session) != nullptr) note_plan(*session, result);
}

void Server::note_plan(Session& session, const PlanResult& result) {
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
  registry_->note(result.session, "plan",
                  plan.is_there() ? fmt::format("{}: {} moves, {:.3g} s a step predicted", plan.policy,
                                                plan.entries, plan.predicted_step_seconds)
                                  : "none: " + plan.refusal,
                  now_ns_);
}

}  // namespace terrace::daemon
