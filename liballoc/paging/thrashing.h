// Whether the job spends most of its time waiting for pages that were taken from it a moment ago.
//
// Both must hold for several seconds on end: threads wait for at least half of the time, and at least half of
// what leaves comes straight back after it was written. A job that streams waits little; one that is short of
// memory for a moment is not told of it. Source: Denning, "Thrashing: Its Causes and Prevention", AFIPS 1968.
// Pure.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class Thrashing {
 public:
  static constexpr std::uint64_t look_ns = 1'000'000'000;
  static constexpr unsigned looks_to_be_sure = 5;

  // All three count from the start of the job.
  struct Counts {
    std::uint64_t stall_ns = 0;
    std::uint64_t evicted_bytes = 0;
    std::uint64_t refaulted_bytes = 0;
  };

  bool is_due(std::uint64_t now_ns) const { return now_ns >= looked_ns_ + look_ns; }
  // Once it is due. True: it thrashes, which was not said before.
  bool look(std::uint64_t now_ns, const Counts& counts) {
    const std::uint64_t waited = counts.stall_ns - before_.stall_ns;
    const std::uint64_t left = counts.evicted_bytes - before_.evicted_bytes;
    const std::uint64_t back = counts.refaulted_bytes - before_.refaulted_bytes;
    const bool is_bad = 2 * waited >= now_ns - looked_ns_ && left > 0 && 2 * back >= left;
    looked_ns_ = now_ns;
    before_ = counts;
    bad_looks_ = is_bad ? bad_looks_ + 1 : 0;
    if (bad_looks_ < looks_to_be_sure || told_) return false;
    return told_ = true;
  }

 private:
  std::uint64_t looked_ns_ = 0;
  Counts before_;
  unsigned bad_looks_ = 0;
  bool told_ = false;
};

}  // namespace terrace::liballoc
