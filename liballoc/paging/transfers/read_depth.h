// How many reads of whole runs the device is given at a time, where no thread waits for them.
//
// Reads beyond what keeps the device busy only stand in its queue, where the next touch waits behind them,
// and some devices get slower with each. How many that is differs between drives and from one hour to the
// next, so it is found by trying: now and then one more or one fewer for a while. Deeper must pay, shallower
// must not cost. Two at least, so that the device has the next one when it is done with one. Pure.
#pragma once

#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

class ReadDepth {
 public:
  static constexpr std::uint32_t least = 2;
  static constexpr std::uint32_t most = 8;

  std::uint32_t reads() const { return depth_; }

  // A read has ended that was one of `among` when it began. It kept the device for `ns`.
  void note(std::uint64_t ns, std::uint32_t bytes, std::uint32_t among) {
    constexpr std::uint32_t run = pages_per_run * os::page_bytes;
    if (bytes < run / 2 || among < depth_) return;
    sum_ns_ += ns * run / bytes;
    if (++samples_ < samples_of_a_depth) return;
    const std::uint64_t per_run_ns = sum_ns_ / samples_;
    sum_ns_ = samples_ = 0;
    is_trying_ ? judge(per_run_ns) : rest(per_run_ns);
  }

 private:
  static constexpr std::uint32_t samples_of_a_depth = 16;
  static constexpr std::uint32_t rounds_of_rest = 8;
  static constexpr std::uint64_t share_that_matters = 20;  // one of so many

  void rest(std::uint64_t per_run_ns) {
    home_ns_ = per_run_ns;
    if (++rounds_ < rounds_of_rest) return;
    rounds_ = 0;
    home_ = depth_;
    is_up_ = !is_up_;
    const std::uint32_t next = is_up_ ? home_ + 1 : home_ - 1;
    is_trying_ = next >= least && next <= most;
    if (is_trying_) depth_ = next;
  }

  void judge(std::uint64_t per_run_ns) {
    is_trying_ = false;
    const std::uint64_t margin = home_ns_ / share_that_matters;
    const bool stays = depth_ > home_ ? per_run_ns + margin < home_ns_ : per_run_ns <= home_ns_ + margin;
    if (!stays) depth_ = home_;
  }

  std::uint32_t depth_ = 3;
  std::uint32_t home_ = depth_;
  std::uint32_t samples_ = 0;
  std::uint32_t rounds_ = rounds_of_rest - 2;  // the first try comes soon
  std::uint64_t sum_ns_ = 0;
  std::uint64_t home_ns_ = 0;  // at home, per run
  bool is_trying_ = false;
  bool is_up_ = true;
};

}  // namespace terrace::liballoc
