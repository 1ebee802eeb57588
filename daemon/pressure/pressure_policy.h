// How much of its budget the daemon hands out while the machine is short of memory. Pure: the time is passed
// in.
//
// The budget counts large allocations of jobs. What else runs beside them is not in it, and may need more
// than the tenth that the default leaves. When programs wait for memory (the kernel's pressure stall
// information, PSI) and little of it is available, both for a while, the budget is lowered a step, and
// further as long as that lasts; when the machine has been at ease for longer, it rises again. Either alone
// says nothing: a job under a limit of its own waits on a machine that has plenty, and one that just fills
// its memory with file pages waits for nothing.
//
// Looked at are the machine and, where terraced is in a memory cgroup with a limit, that cgroup: its jobs may
// be short of memory (over memory.high, the kernel lets them wait) on a machine that has plenty. One that is
// short lowers the budget; it rises when all are at ease.
//
//   lower   some >= 10% or full >= 5%, and available < 1/16, for 3 s; then every 5 s; to half at most
//   raise   some < 1%, and available >= 1/16 and a step, for 30 s; then every 10 s
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace terrace::daemon {

// Of the last ten seconds, in hundredths of a percent; and what could be had without swapping.
struct MemoryState {
  std::uint32_t some = 0;  // some task waited for memory
  std::uint32_t full = 0;  // all that could run did
  std::uint64_t available_bytes = 0;
  std::uint64_t total_bytes = 0;
};

class PressurePolicy {
 public:
  static constexpr std::uint64_t second = 1'000'000'000;
  static constexpr std::uint64_t parts = 16;  // of the budget; a step is one
  static constexpr unsigned most_steps = 8;   // half of it stays
  static constexpr std::uint32_t some_is_high = 1000, full_is_high = 500, some_is_low = 100;
  static constexpr std::uint64_t lower_after_ns = 3 * second, lower_again_ns = 5 * second;
  static constexpr std::uint64_t raise_after_ns = 30 * second, raise_again_ns = 10 * second;

  // `states`: of the machine, and of the cgroup. True when the budget changed.
  bool observe(std::span<const MemoryState> states, std::uint64_t budget_bytes, std::uint64_t now_ns) {
    bool is_short = false, is_at_ease = true;
    for (const MemoryState& state : states) {
      const std::uint64_t short_of = state.total_bytes / parts;
      const bool waits = state.some >= some_is_high || state.full >= full_is_high;
      is_short = is_short || (waits && state.available_bytes < short_of);
      is_at_ease =
          is_at_ease && state.some < some_is_low && state.available_bytes >= short_of + budget_bytes / parts;
    }
    const Mood mood = is_short ? Mood::short_of_memory : is_at_ease ? Mood::at_ease : Mood::between;
    if (mood != mood_) {
      mood_ = mood;
      next_ns_ = now_ns + (is_short ? lower_after_ns : raise_after_ns);
    }
    if (mood == Mood::between || now_ns < next_ns_) return false;
    next_ns_ = now_ns + (is_short ? lower_again_ns : raise_again_ns);
    const unsigned before = steps_;
    steps_ = is_short ? std::min(steps_ + 1, most_steps) : steps_ - std::min(steps_, 1U);
    return steps_ != before;
  }

  // What is handed out of it now.
  std::uint64_t of(std::uint64_t budget_bytes) const { return budget_bytes - budget_bytes / parts * steps_; }

 private:
  enum class Mood { between, short_of_memory, at_ease };
  Mood mood_ = Mood::between;
  std::uint64_t next_ns_ = 0;
  unsigned steps_ = 0;
};

}  // namespace terrace::daemon
