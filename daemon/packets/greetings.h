// How processes become sessions.
//
//   fresh ─ Hello ─▶ inspected, if it brings its pool ─▶ waiting, while earlier jobs come back ─▶ job:
//   Welcome
//
// After a start those go first who had a promise before: the others' greetings wait until hold_until(). A job
// that is back brings its NVM after its welcome. One thread, the loop's; files are looked at elsewhere
// (received_files.h), and the greeting waits for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/packets/announcements.h"
#include "daemon/packets/handling.h"

namespace terrace::daemon {

class Greetings {
 public:
  // `announcements` lives longer.
  Greetings(const Handling& handling, const Announcements& announcements)
      : handling_(handling), announcements_(announcements) {}

  void hold_until(std::uint64_t at_ns) { hold_until_ns_ = at_ns; }
  bool is_holding() const { return handling_.loop.now_ns() < hold_until_ns_; }

  // A greeting, whose packet is still in the socket where it brings a file.
  std::string hello(ConnectionId id, const Packet& packet);
  // What came with it was looked at: nothing, where it was no pool file.
  void inspected(ConnectionId id, const std::optional<PoolFile>& file);
  // A job brings the NVM that it had of an earlier daemon.
  std::string nvm_held(ConnectionId id, const Packet& packet);
  void inspected_nvm(ConnectionId id, const std::optional<PoolFile>& file);
  // Those that waited for the jobs of an earlier daemon are answered.
  void let_in_waiting();
  // Those who connected and said nothing are disconnected.
  void drop_silent();

 private:
  std::string inspect(ConnectionId id, const wire::Hello& hello);
  std::string greet(ConnectionId id, const wire::Hello& hello, const std::optional<PoolFile>& pool);
  std::string begin_session(ConnectionId id, const wire::Hello& hello, const std::optional<PoolFile>& pool);
  std::string send_welcome(Connection& connection, Session& session, Admission admission);
  std::string send_tiers(Connection& connection, const Session& session, const UniqueFd& nvm_fd);

  Handling handling_;
  const Announcements& announcements_;
  std::uint64_t hold_until_ns_ = 0;
};

}  // namespace terrace::daemon
