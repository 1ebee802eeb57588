// Tells systemd that the loop goes round, three times as often as it wants to hear it.
#pragma once

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdint>

namespace terrace::daemon {

class Watchdog {
 public:
  void open() {
    std::uint64_t us = 0;
    if (::sd_watchdog_enabled(0, &us) > 0) pause_ns_ = us * 1000 / 3;
  }
  void feed(std::uint64_t now_ns) {
    if (pause_ns_ == 0 || now_ns < next_ns_) return;
    next_ns_ = now_ns + pause_ns_;
    ::sd_notify(0, "WATCHDOG=1");
  }
  // The time of the next meal, or `other` if that comes first.
  std::uint64_t next_ns(std::uint64_t other) const {
    return pause_ns_ == 0 ? other : std::min(other, next_ns_);
  }

 private:
  std::uint64_t pause_ns_ = 0;  // 0: nobody listens
  std::uint64_t next_ns_ = 0;
};

}  // namespace terrace::daemon
