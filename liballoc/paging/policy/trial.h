// Whether what comes as a whole is used as a whole: now and then a run of those comes by its touches alone.
//
// A run that comes whole raises no further fault, so nothing tells how much of it is used. A pass over a few
// columns of a matrix uses 32 pages of 512 and then goes on to the next run: whole runs are sixteen times the
// reads, and sixteen times the memory. So one run in `pause` is tried, also of those that were used all over
// once, but fewer: what has come in columns for long enough looks like that, and then nothing else would
// tell. A stream has all of it again after three touches, as each piece is four times as long (reach.h). A
// trial is over when `patience` others have come since the last touch of its run: as long as touches go on,
// the run is in use, and words that are read at random take hundreds of them to fill it. What is there then
// is what was used. Pure.
#pragma once

#include <cstdint>

#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class Trial {
 public:
  enum class Finding : std::uint8_t { sparse, full, unclear };

  bool is_of(std::uint32_t n) const { return run_ == n; }
  std::uint32_t run() const { return run_; }
  std::uint32_t block() const { return block_; }
  bool was_scattered() const { return was_scattered_; }

  // Run n of `block` would come as a whole now; `arrivals`: how many runs have come, ever; `is_dense`: all of
  // it was used once; `is_scattered`: pages of it are in use already. True: it is tried.
  bool begin(std::uint32_t n, std::uint32_t block, std::uint32_t arrivals, bool is_dense, bool is_scattered) {
    constexpr std::uint32_t pause = 16;
    constexpr std::uint32_t pause_of_dense = 128;
    if (run_ != none || block == 0 || arrivals - since_ < (is_dense ? pause_of_dense : pause)) return false;
    run_ = n;
    block_ = block;
    was_scattered_ = is_scattered;
    since_ = touched_ = arrivals;
    return true;
  }
  // The run that is tried was touched where it was not there.
  void note_touch(std::uint32_t arrivals) { touched_ = arrivals; }
  bool is_due(std::uint32_t arrivals) const {
    constexpr std::uint32_t patience = 16;
    return run_ != none && arrivals - touched_ >= patience;
  }
  // `left`: the count of arrivals when the run left last. Where that is since it is tried, what is there
  // tells nothing.
  bool is_void(std::uint32_t left, std::uint32_t arrivals) const {
    return arrivals - left <= arrivals - since_;
  }
  // `pages`: what is there of the run that is due; `left` as above.
  Finding finding(std::uint32_t pages, std::uint32_t left, std::uint32_t arrivals) const {
    if (is_void(left, arrivals)) return Finding::unclear;
    if (pages < pages_per_run / 3) return Finding::sparse;
    if (was_scattered_) return Finding::unclear;  // they need not have come together
    return pages >= pages_per_run / 4 * 3 ? Finding::full : Finding::unclear;
  }
  void end(std::uint32_t arrivals) {
    run_ = none;
    since_ = arrivals;
  }

 private:
  std::uint32_t run_ = none;
  std::uint32_t block_ = 0;
  bool was_scattered_ = false;
  std::uint32_t since_ = 0;    // in arrivals: when it began, or the last one ended
  std::uint32_t touched_ = 0;  // in arrivals: when its run was touched last
};

}  // namespace terrace::liballoc
