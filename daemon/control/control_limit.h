// Keeps one user's control requests from taking the daemon's time from others: each answer costs its user
// what it took, and a user who has used up his share waits. A burst passes; then he has a tenth of a
// processor. Pure.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <map>

namespace terrace::daemon {

class ControlLimit {
 public:
  static constexpr std::uint64_t burst_ns = 100'000'000;  // of answering
  static constexpr std::uint64_t share = 10;              // one in so many nanoseconds is his

  // Whether a request of this user may be answered now.
  bool may_ask(uid_t uid, std::uint64_t now_ns) const {
    const auto found = paid_until_ns_.find(uid);
    return found == paid_until_ns_.end() || found->second <= now_ns + share * burst_ns;
  }
  // An answer to him, or a part of one, took so long, which it returns.
  std::uint64_t charge(uid_t uid, std::uint64_t now_ns, std::uint64_t spent_ns) {
    std::erase_if(paid_until_ns_, [now_ns](const auto& entry) { return entry.second <= now_ns; });
    std::uint64_t& until = paid_until_ns_[uid];
    until = std::max(until, now_ns) + share * spent_ns;
    return spent_ns;
  }

 private:
  std::map<uid_t, std::uint64_t> paid_until_ns_;  // those who asked lately
};

}  // namespace terrace::daemon
