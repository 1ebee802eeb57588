// Where clients come in, and where their sockets go when they leave.
//
// Nobody is let in who could not be served: when descriptors run out, one client is turned away at a time,
// and while too many sockets are slow to close (received_files.h) the others wait in the backlog. Nothing
// here waits for a client. One thread, the loop's.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/base/unique_fd.h"
#include "daemon/sockets/listener.h"
#include "daemon/sockets/log_limit.h"
#include "daemon/sockets/poller.h"
#include "daemon/sockets/received_files.h"

namespace terrace::daemon {

class Door {
 public:
  // Sockets whose descriptors are slow to close. With more, nobody is accepted until some are done.
  static constexpr std::size_t max_closing = 1024;

  // Both live longer. `tag`: of the events that say that clients wait.
  Door(Poller& poller, LogLimit& log_limit, std::uint64_t tag)
      : poller_(poller), log_limit_(log_limit), tag_(tag) {}

  // "" or why nobody can come in, with the remedy; see Listener::open().
  std::string open(const Config& config, bool is_private, UniqueFd handed_over);
  const Listener& listener() const { return listener_; }
  // The next client that waits; nothing when none does, or while too many sockets are being closed.
  UniqueFd accept(std::uint64_t now_ns);
  // Now and then: those who were kept out may come in again, if they could be served.
  void let_in();
  // Closes a client's socket: here, when nothing of the client's is closed with it. `is_shared`: a thread
  // reads it.
  void dispose(UniqueFd socket, bool is_shared = false);
  void close() { listener_.close(); }

  // Where descriptors that clients send are received and closed.
  ReceivedFiles& files() { return received_files_; }
  const ReceivedFiles& files() const { return received_files_; }

 private:
  bool is_overrun(std::uint64_t now_ns);
  void shed_one(std::uint64_t now_ns);
  void listen(bool on);

  Poller& poller_;
  LogLimit& log_limit_;
  std::uint64_t tag_;
  Listener listener_;
  UniqueFd spare_fd_;  // given up for an instant to turn a client away when descriptors run out
  ReceivedFiles received_files_;
  bool listening_ = true;
};

}  // namespace terrace::daemon
