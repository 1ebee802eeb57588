// See answers.h.
#include "daemon/packets/answers.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t answering_ns = 5'000'000;  // of a round: no answer is begun after that

std::string_view request_in(const Packet& packet) {
  return {reinterpret_cast<const char*>(packet.bytes) + sizeof(wire::Header),
          packet.size - sizeof(wire::Header)};
}

}  // namespace

std::string Answers::request(ConnectionId id, const Packet& packet) {
  Connection& connection = handling_.connections.at(id);
  connection.role = Connection::Role::control;
  const bool has_turn = spent_ns_ < answering_ns && !has_more_;
  if (!has_turn || !limit_.may_ask(connection.peer().uid, handling_.loop.now_ns()))
    return postpone(id, packet, has_turn);
  return answer(id, packet);
}

std::string Answers::postpone(ConnectionId id, const Packet& packet, bool has_turn) {
  handling_.connections.at(id).postponed = std::make_unique<Packet>(packet);
  has_more_ = has_more_ || !has_turn;
  handling_.connections.update_interest(id);
  return {};
}

std::string Answers::answer(ConnectionId id, const Packet& packet) {
  Connection& connection = handling_.connections.at(id);
  Loop& loop = handling_.loop;
  const std::uint64_t began_ns = clock_ns();
  handling_.registry.take_in(loop.now_ns());
  const ControlOutcome outcome = daemon::answer(request_in(packet), connection.peer(), context_of_());
  for (const SessionId session : outcome.trim)
    handling_.connections.send_to(session, wire::make<wire::Trim>());
  if (outcome.shut_down) loop.end();
  if (outcome.budgets_changed) loop.tick_by(loop.now_ns());
  if (outcome.jobs_follow)
    connection.unfinished = std::make_unique<LongAnswer>(outcome.reply, handling_.registry);
  const int error = outcome.jobs_follow ? 0 : connection.answer(text_of(outcome.reply));
  charge(limit_.charge(connection.peer().uid, loop.now_ns(), clock_ns() - began_ns));
  if (error != 0) return "it does not read its answers";
  return go_on(id);
}

// A turn of an answer that takes more than one, if there is one.
std::string Answers::go_on(ConnectionId id) {
  Connection& connection = handling_.connections.at(id);
  int error = 0;
  if (connection.unfinished) {
    const std::uint64_t began_ns = clock_ns();
    connection.unfinished->write(context_of_());
    if (connection.unfinished->is_whole())
      error = connection.answer(std::exchange(connection.unfinished, nullptr)->text());
    charge(limit_.charge(connection.peer().uid, handling_.loop.now_ns(), clock_ns() - began_ns));
  }
  if (error != 0) return "it does not read its answers";
  has_more_ = has_more_ || connection.unfinished;
  handling_.connections.update_interest(id);
  return {};
}

// Those whose user has waited long enough, whoever was answered last as the last. What is begun is ended
// first: who asks on many connections would else wait for all of them to get one.
std::vector<ConnectionId> Answers::waiting() const {
  const Connections& connections = handling_.connections;
  std::vector<ConnectionId> waiting;
  for (const ConnectionId id : connections.guests()) {
    const Connection& connection = connections.at(id);
    if (connection.waits_for_answer() && limit_.may_ask(connection.peer().uid, handling_.loop.now_ns()))
      waiting.push_back(id);
  }
  std::rotate(waiting.begin(), std::upper_bound(waiting.begin(), waiting.end(), last_answered_),
              waiting.end());
  std::stable_partition(waiting.begin(), waiting.end(),
                        [&](ConnectionId id) { return connections.at(id).unfinished != nullptr; });
  return waiting;
}

void Answers::answer_postponed() {
  has_more_ = false;
  for (const ConnectionId id : waiting()) {
    if (spent_ns_ >= answering_ns) {
      has_more_ = true;
      return;
    }
    last_answered_ = id;
    const auto packet = std::exchange(handling_.connections.at(id).postponed, nullptr);
    if (const auto fault = packet ? request(id, *packet) : go_on(id); !fault.empty())
      handling_.connections.drop(id, fault, true);
  }
}

}  // namespace terrace::daemon
