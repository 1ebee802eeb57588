// Keeps a client that fails a thousand times a second from filling the log: a burst passes, then a few a
// second, and the next line that passes says how many did not.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::daemon {

class LogLimit {
 public:
  static constexpr std::uint64_t burst = 20;
  static constexpr std::uint64_t refill_ns = 500'000'000;  // one line each

  // Whether a line may be written now; then *suppressed is what was kept back before it.
  bool allow(std::uint64_t now_ns, std::uint64_t* suppressed) {
    const std::uint64_t earned = (now_ns - last_refill_ns_) / refill_ns;
    if (earned != 0) {
      tokens_ = std::min(burst, tokens_ + earned);
      last_refill_ns_ += earned * refill_ns;
    }
    if (tokens_ == 0) {
      ++suppressed_;
      return false;
    }
    --tokens_;
    *suppressed = suppressed_;
    suppressed_ = 0;
    return true;
  }

 private:
  std::uint64_t tokens_ = burst;
  std::uint64_t last_refill_ns_ = 0;
  std::uint64_t suppressed_ = 0;
};

}  // namespace terrace::daemon
