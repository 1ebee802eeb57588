// A thread that does the same ten times a second until it is stopped: what a session reports and obeys.
// start() and stop() by the thread that owns it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "tiers/gpu/start_without_signals.h"

namespace terrace::liballoc::gpu {

class Rounds {
 public:
  Rounds() = default;
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;
  ~Rounds() { stop(); }

  // Calls `begin` once and then `round` again and again, in a thread of its own. Throws std::system_error
  // where there is no thread to be had. Once.
  template <class Begin, class Round>
  void start(Begin begin, Round round) {
    thread_ = tiers::gpu::start_without_signals([this, begin = std::move(begin), round = std::move(round)] {
      begin();
      do round();
      while (rest());
    });
  }
  // No call is under way or comes any more.
  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    ends_.notify_one();
    thread_.join();
  }

 private:
  static constexpr std::chrono::milliseconds time_of_a_round{100};

  // Without a descriptor: programs close those that they did not open. False: it is the end.
  bool rest() {
    std::unique_lock lock(mutex_);
    return !ends_.wait_for(lock, time_of_a_round, [this] { return ending_; });
  }

  std::mutex mutex_;  // of what follows
  std::condition_variable ends_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace terrace::liballoc::gpu
