// What jobs are told unasked: their budgets and limits when these change, and what they may write. One
// thread, the loop's. A job that does not read its messages is disconnected.
#pragma once

#include <cstdint>

#include "daemon/packets/handling.h"

namespace terrace::daemon {

class Announcements {
 public:
  explicit Announcements(const Handling& handling) : handling_(handling) {}

  // Budgets and limits that have changed since this was called last.
  void announce() const;
  // The next leases of bytes that may be written. Not before the welcome of who has just joined.
  void announce_writes() const;
  // What the session has of NVM, and how much of that it may use now.
  void announce_nvm(SessionId session, std::uint64_t limit_bytes) const;

 private:
  Handling handling_;
};

}  // namespace terrace::daemon
