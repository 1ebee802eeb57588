// Who is connected, how they are found, and how they leave: by number, by session, and those that are no jobs
// (yet). What their packets mean is known elsewhere. One thread, the loop's.
//
// A reference to a connection holds until drop() of it, and everything that sends may drop: whoever sends to
// one session looks at another connection anew.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "daemon/sockets/connection.h"
#include "daemon/sockets/door.h"
#include "daemon/sockets/log_limit.h"
#include "daemon/sockets/loop.h"
#include "daemon/sockets/poller.h"
#include "daemon/sockets/tag.h"

namespace terrace::daemon {

class Connections {
 public:
  static constexpr std::size_t most = 1024 + 128;
  static constexpr std::size_t most_of_user = 256 + 32;

  // Is told of a job's connection that is being dropped, and why, while it can still be looked at.
  using Left = std::function<void(const Connection& connection, const std::string& why)>;

  // All of them live longer.
  Connections(const Poller& poller, Door& door, LogLimit& log_limit, Loop& loop, Left left)
      : poller_(poller), door_(door), log_limit_(log_limit), loop_(loop), left_(std::move(left)) {}
  Connections(const Connections&) = delete;

  // Those who wait at the door, some at a time. Who cannot be served is told so and turned away.
  void accept_all();
  // Null: it was dropped earlier.
  Connection* find(ConnectionId id) const;
  // Of one that is there.
  Connection& at(ConnectionId id) const { return *all_.at(id); }
  // Null: the session's connection was dropped.
  Connection* of_session(SessionId session) const;
  // Few, where jobs may be a thousand.
  const std::set<ConnectionId>& guests() const { return guests_; }
  bool is_empty() const { return all_.empty(); }
  // The time when the last one left, or of the start.
  std::uint64_t empty_since_ns() const { return empty_since_ns_; }

  // A guest is a job from now on; the kernel is asked to tell when its process ends.
  void make_job(ConnectionId id, SessionId session);
  // What it waits to read, to be answered or to be written has changed.
  void update_interest(ConnectionId id) const;
  // Sends to a session, whose connection is dropped if it does not read its messages. Nothing happens where
  // the session's connection was dropped.
  template <class Message>
  void send_to(SessionId session, const Message& message) {
    send_bytes(session, &message, sizeof message);
  }
  // Nothing happens where it was dropped. `is_fault`: by a rule that the client broke, which is logged.
  void drop(ConnectionId id, const std::string& why, bool is_fault);
  // The end of all, of which nobody is told.
  void close();

 private:
  void accept_one(UniqueFd socket);
  void turn_away(Connection* connection);
  bool has_room_for(uid_t uid) const;
  void send_bytes(SessionId session, const void* message, std::size_t bytes);

  const Poller& poller_;
  Door& door_;
  LogLimit& log_limit_;
  Loop& loop_;
  Left left_;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> all_;
  std::unordered_map<SessionId, ConnectionId> of_sessions_;
  std::set<ConnectionId> guests_;
  ConnectionId next_ = 1;
  std::uint64_t empty_since_ns_ = loop_.now_ns();
};

}  // namespace terrace::daemon
