// See connections.h.
#include "daemon/sockets/connections.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>

#include "daemon/sessions/registry.h"

namespace terrace::daemon {
namespace {

constexpr int accepts_per_round = 64;

}  // namespace

void Connections::accept_all() {
  for (int i = 0; i < accepts_per_round; ++i) {
    UniqueFd socket = door_.accept(loop_.now_ns());
    if (!socket) return;
    accept_one(std::move(socket));
  }
}

bool Connections::has_room_for(uid_t uid) const {
  if (all_.size() >= most) return false;
  const auto of_user =
      std::count_if(all_.begin(), all_.end(), [uid](const auto& c) { return c.second->peer().uid == uid; });
  return static_cast<std::size_t>(of_user) + door_.files().closing_of(uid) < most_of_user;
}

void Connections::turn_away(Connection* connection) {
  connection->refuse({EUSERS, 0, "too many connections of this user; close some"});
  std::uint64_t suppressed = 0;
  if (log_limit_.allow(loop_.now_ns(), &suppressed))
    spdlog::warn("turned away process {} of user {}: too many connections ({} earlier lines left out)",
                 connection->peer().pid, connection->peer().uid, suppressed);
  door_.dispose(connection->take_socket());
}

void Connections::accept_one(UniqueFd socket) {
  const auto peer = peer_of(socket.get());
  if (!peer) return door_.dispose(std::move(socket));
  auto connection = std::make_unique<Connection>(std::move(socket), *peer, loop_.now_ns());
  if (!has_room_for(peer->uid)) return turn_away(connection.get());
  const ConnectionId id = next_++;
  poller_.add(connection->fd(), tag_of(EventKind::connection, id), connection->events);
  all_[id] = std::move(connection);
  guests_.insert(id);
  loop_.tick_by(loop_.now_ns() + Registry::round_ns);
}

Connection* Connections::find(ConnectionId id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : found->second.get();
}

Connection* Connections::of_session(SessionId session) const {
  const auto found = of_sessions_.find(session);
  return found == of_sessions_.end() ? nullptr : find(found->second);
}

void Connections::make_job(ConnectionId id, SessionId session) {
  Connection& connection = at(id);
  connection.role = Connection::Role::job;
  connection.session = session;
  guests_.erase(id);
  of_sessions_[session] = id;
  connection.process.reset(open_peer_process(connection.fd(), connection.peer().pid));
  if (connection.process) poller_.add(connection.process.get(), tag_of(EventKind::process, id), EPOLLIN);
}

void Connections::update_interest(ConnectionId id) const {
  Connection& connection = at(id);
  const bool reads_nothing = connection.waits_for_answer() || connection.is_inspected();
  const std::uint32_t reads = reads_nothing ? 0U : EPOLLIN | EPOLLRDHUP;
  const std::uint32_t events = reads | (connection.has_queued() ? EPOLLOUT : 0U);
  if (events == connection.events) return;
  connection.events = events;
  poller_.change(connection.fd(), tag_of(EventKind::connection, id), events);
}

void Connections::send_bytes(SessionId session, const void* message, std::size_t bytes) {
  const auto found = of_sessions_.find(session);
  if (found == of_sessions_.end()) return;
  const ConnectionId id = found->second;
  if (at(id).send(message, bytes) != 0) return drop(id, "it does not read its messages", true);
  update_interest(id);
}

void Connections::drop(ConnectionId id, const std::string& why, bool is_fault) {
  const auto found = all_.find(id);
  if (found == all_.end()) return;
  const Connection& connection = *found->second;
  std::uint64_t suppressed = 0;
  if (is_fault && log_limit_.allow(loop_.now_ns(), &suppressed))
    spdlog::warn("disconnected process {} of user {}: {} ({} earlier lines left out)", connection.peer().pid,
                 connection.peer().uid, why, suppressed);
  if (connection.role == Connection::Role::job) {
    of_sessions_.erase(connection.session);
    left_(connection, why);
  }
  const auto dropped = std::move(found->second);
  all_.erase(found);
  guests_.erase(id);
  door_.files().give_back(dropped->peer().uid, std::move(dropped->pool));
  door_.dispose(dropped->take_socket(), dropped->is_inspected());
  if (all_.empty()) empty_since_ns_ = loop_.now_ns();
}

void Connections::close() {
  for (const auto& [id, connection] : all_)
    door_.dispose(connection->take_socket(), connection->is_inspected());
  all_.clear();
  of_sessions_.clear();
  guests_.clear();
}

}  // namespace terrace::daemon
