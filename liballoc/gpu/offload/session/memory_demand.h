// How much host memory an engine would use if it had it: what the daemon divides a job's memory by.
//
// A step needs its memory for a moment only, and what was refused is not asked for again before the next
// step. So what this step or the last one had to go without counts until the next one has ended: by then a
// larger grant has come and was used, or there is none to be had.
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
  void went_without(std::uint64_t bytes) { missed_ += std::min(bytes, ~missed_); }
  void end_step() { missed_before_ = std::exchange(missed_, 0); }

  // Of an engine that may take `most_bytes` by its settings and has taken `committed_bytes`.
  std::uint64_t bytes(std::uint64_t committed_bytes, std::uint64_t most_bytes) const {
    const std::uint64_t missed = std::max(missed_, missed_before_);
    return committed_bytes + std::min(missed, most_bytes - std::min(most_bytes, committed_bytes));
  }

 private:
  std::uint64_t missed_ = 0;  // in this step
  std::uint64_t missed_before_ = 0;
};

}  // namespace terrace::liballoc::offload
