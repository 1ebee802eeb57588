// Many sessions of several users, which write events and obey the budgets they are sent.
//
// What a session's process does is done here for all of them by two threads: one reads their sockets, one
// writes into their segments. A terraced sees the difference only in that all have one process.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/daemon/scale/client.h"

namespace terrace::tests::scale {

class Sessions {
 public:
  static constexpr uid_t first_user = 60001;
  static constexpr std::size_t per_user = 250;  // a user may have 256; some are left to measure by

  Sessions() = default;
  ~Sessions() { stop(); }
  Sessions(const Sessions&) = delete;

  // `per_user` of each user, each a job of its own. "" or what failed.
  std::string join_all(const std::string& socket, std::size_t count, std::size_t per_user);
  // Reads what the daemon sends from now on.
  void follow();
  // So many events for each at once, `rounds` times: what a daemon has seen after a long while.
  void age(int rounds, std::uint64_t events);
  // Writes so many events a second, all sessions together, from now on.
  void write_events(std::uint64_t per_second);
  void stop();

  std::size_t size() const { return sessions_.size(); }
  std::uint64_t written() const { return written_; }
  std::uint64_t messages() const { return messages_; }
  std::uint64_t closed() const { return closed_; }
  static std::string job_name(std::size_t number) { return "job" + std::to_string(number); }

 private:
  void read_messages();
  void read_from(std::size_t i);
  void write_event(std::size_t i);

  std::vector<Joined> sessions_;
  std::vector<std::uint64_t> last_address_;
  std::minstd_rand random_{1};
  std::thread reader_, writer_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> written_{0}, messages_{0}, closed_{0};
};

}  // namespace terrace::tests::scale
