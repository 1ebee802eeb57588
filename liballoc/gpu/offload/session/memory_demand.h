// How much host memory an engine would use if it had it: what the daemon divides a job's memory by.
//
// A step needs its memory for a moment only, and what was refused is not asked for again before the next
// step. So what this step or the last one had to go without counts until the next one has ended: by then a
// larger grant has come and was used, or there is none to be had.
//
// A job's first grant may be small: another part of the job has been granted the memory, and has to give
// before it is granted again. So a store waits for the answer, for a second at most. Where none has come by
// then, no store waits again until a larger grant has come.
//
// Under the engine's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace terrace::liballoc::offload {

class MemoryDemand {
 public:
  // A store found no host memory, and none may be taken.
  void went_without(std::uint64_t bytes, std::uint64_t now_ns) {
    missed_ += std::min(bytes, ~missed_);
    if (asked_ns_ == 0) asked_ns_ = now_ns;
  }
  void was_granted_more() { asked_ns_ = 0; }
  // Whether a larger grant may be on its way.
  bool awaits_answer(std::uint64_t now_ns) const {
    return asked_ns_ != 0 && now_ns - asked_ns_ < longest_answer_ns;
  }
  void end_step() { missed_before_ = std::exchange(missed_, 0); }

  // Of an engine that may take `most_bytes` by its settings and has taken `committed_bytes`.
  std::uint64_t bytes(std::uint64_t committed_bytes, std::uint64_t most_bytes) const {
    const std::uint64_t missed = std::max(missed_, missed_before_);
    return committed_bytes + std::min(missed, most_bytes - std::min(most_bytes, committed_bytes));
  }

 private:
  // A report, ten times a second, of this engine and of who gives, and the daemon's decision after each.
  static constexpr std::uint64_t longest_answer_ns = 1'000'000'000;

  std::uint64_t asked_ns_ = 0;  // of a grant that has not been raised since; 0: nothing was asked for
  std::uint64_t missed_ = 0;    // in this step
  std::uint64_t missed_before_ = 0;
};

}  // namespace terrace::liballoc::offload
