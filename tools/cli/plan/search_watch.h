// A person at a long search: what it has found so far, on one line of the terminal, and Ctrl-C, which ends
// the search with the best so far kept. The planner has no clock; this is its clock.
//
// While one of these exists, the first SIGINT or SIGTERM asks the running search to stop and keeps the next
// ones from starting; the second one ends the program. Many published policies never ask, and some take
// minutes for a large step: work that has not ended some seconds after the signal is left behind on its
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/planner/reuse/instance.h"
#include "tools/cli/base/interruption.h"

namespace terrace::cli {

class SearchWatch {
 public:
  // 0 seconds: a search may take as long as it wants.
  SearchWatch(double seconds_per_search, bool progress,
              std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~SearchWatch();
  SearchWatch(const SearchWatch&) = delete;
  SearchWatch& operator=(const SearchWatch&) = delete;

  // The clock starts. The control refers to this object; the search may use it from any of its threads.
  planner::SearchControl begin(const std::string& name, std::uint64_t seed, std::uint64_t capacity_bytes);
  // Seconds since begin(); removes the line.
  double end();
  bool stopped();  // the search since begin() was told to stop

  // Runs `work` on a thread of its own and waits for it; what it throws is thrown here. False: it goes on
  // `patience` after a signal. Then nothing that it refers to may be destroyed, so that the program must end
  // by _exit(); the destructor waits for it.
  bool carry_out(std::function<void()> work);
  bool left_behind() const { return worker_.joinable(); }
  static bool interrupted();
  static int signal_number();  // of the interruption

 private:
  bool should_stop();
  void found(std::uint64_t total_bytes, std::uint64_t bound_bytes);
  void draw(double seconds);
  double elapsed() const;

  using Clock = std::chrono::steady_clock;
  Interruption interruption_;
  double seconds_per_search_;
  bool progress_;
  std::chrono::milliseconds patience_;
  std::thread worker_;  // joinable: its work was left behind
  std::mutex mutex_;
  std::string name_;
  Clock::time_point start_;
  double next_draw_s_ = 0;
  std::uint64_t best_bytes_ = 0, bound_bytes_ = 0;
  bool line_is_drawn_ = false;
  bool stopped_ = false;
};

}  // namespace terrace::cli
