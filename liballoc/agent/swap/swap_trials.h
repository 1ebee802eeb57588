// Who keeps the process under its limit, we or the kernel's swap: decided by trying, as neither is faster for
// all programs.
//
//   ours ──the program gets on little, and not as a stream does──► kernel's, on trial
//     ▲  ▲                                                        │       │
//     │  └──────────── no faster, or no swap is left ─────────────┘       │ faster
//     └── time is over, slower than ours was, or no swap is left ── kernel's, kept
//
// What is compared is how much processor time the program's own code gets (`program_ns`): it has none while
// it waits, be it for us or for the kernel. A trial costs the moves there and back of all that is away. So it
// begins only when the program has got on badly for several times as long as these may take, and after one
// that was in vain the next comes later, twice as late each time: as in ski rental, what trials cost is a
// part of what was lost without them. What is kept ends as well, since the program may do something else by
// then, and is kept twice as long the next time. Programs that stream are never given to the kernel, which
// does not read ahead of them. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc {

class SwapTrials {
 public:
  static constexpr std::uint64_t second_ns = 1'000'000'000;
  static constexpr std::uint64_t look_ns = second_ns;
  static constexpr unsigned least_looks_to_be_sure = 10;
  // At 50 MB a second out and in again, a quarter of the time before.
  static constexpr std::uint64_t away_bytes_a_look = 6'250'000;
  static constexpr unsigned pauses_a_trial = 10;
  static constexpr unsigned most_looks_to_settle = 30;
  static constexpr unsigned looks_on_trial = 4;
  static constexpr std::uint64_t first_pause_ns = 60 * second_ns, longest_pause_ns = 3600 * second_ns;
  static constexpr std::uint64_t few_faults = 100, many_faults = 300;              // a second
  static constexpr std::uint64_t few_bytes = 32 << 10, bytes_of_stream = 1 << 20;  // evicted for a touch
  static constexpr std::uint64_t slow_ns = 400'000;

  // Counted from the start of the process, but for the last two.
  struct Look {
    std::uint64_t now_ns = 0;
    std::uint64_t program_ns = 0;  // processor time in the program's own code
    std::uint64_t waited_ns = 0;   // in which some thread waited for us
    std::uint64_t faults = 0;
    std::uint64_t evicted_bytes = 0;
    std::uint64_t away_bytes = 0;  // now: would have to come back, and others to go
    bool may_swap = false;         // now: the kernel has room to
  };

  bool is_due(std::uint64_t now_ns) const { return now_ns >= before_.now_ns + look_ns; }
  // Once it is due. Whether it is the kernel's turn from here on.
  bool look(const Look& look) {
    const Look since{.now_ns = look.now_ns - before_.now_ns,
                     .program_ns = look.program_ns - std::min(look.program_ns, before_.program_ns),
                     .waited_ns = look.waited_ns - before_.waited_ns,
                     .faults = look.faults - before_.faults,
                     .evicted_bytes = look.evicted_bytes - before_.evicted_bytes,
                     .away_bytes = look.away_bytes,
                     .may_swap = look.may_swap};
    const bool is_first = before_.now_ns == 0;
    before_ = look;
    if (is_first) return false;
    if (!is_kernels_) {
      look_at_ours(since);
    } else if (!look.may_swap) {
      end_turn(true);
    } else if (is_kept_) {
      look_at_kept(since);
    } else {
      look_at_trial(since);
    }
    return is_kernels_;
  }

  // So many on end that are bad.
  static unsigned looks_to_be_sure(std::uint64_t away_bytes) {
    return static_cast<unsigned>(
        std::max<std::uint64_t>(least_looks_to_be_sure, away_bytes / away_bytes_a_look));
  }
  bool is_kernels() const { return is_kernels_; }
  // The kernel was found to be faster, and its turn goes on.
  bool is_kept() const { return is_kernels_ && is_kept_; }

 private:
  // Of time that was looked at.
  struct Rate {
    std::uint64_t program_ns = 0;
    std::uint64_t ns = 0;

    void add(const Look& since) {
      program_ns += since.program_ns;
      ns += since.now_ns;
    }
    // More than `percent` of the other.
    bool exceeds(const Rate& other, unsigned percent) const {
      return static_cast<double>(program_ns) * 100 * static_cast<double>(other.ns) >
             static_cast<double>(other.program_ns) * percent * static_cast<double>(ns);
    }
  };

  enum class Finding : std::uint8_t { good, unclear, bad };

  // Bad: the program gets on little, and either its touches move some dozens of pages each, of which most are
  // not used before they leave again, or a touch takes several times what a drive takes to read a page. Good:
  // the program gets on, asks for little, streams, or is served page by page as fast as the kernel could.
  static Finding judge(const Look& since) {
    const std::uint64_t faults = since.faults * second_ns / since.now_ns;  // a second
    if (2 * since.program_ns >= since.now_ns || faults < few_faults) return Finding::good;
    const std::uint64_t moved = since.evicted_bytes / since.faults;
    const std::uint64_t took_ns = (since.now_ns - since.program_ns) / since.faults;
    if (moved >= bytes_of_stream || (moved < few_bytes && took_ns < slow_ns)) return Finding::good;
    const bool is_waste = moved >= few_bytes && moved < bytes_of_stream / 2 && faults >= many_faults;
    const bool is_slow = moved < 2 * few_bytes && took_ns >= slow_ns;
    return is_waste || is_slow ? Finding::bad : Finding::unclear;
  }

  void look_at_ours(const Look& since) {
    const Finding finding = judge(since);
    if (finding == Finding::good) {
      looks_ = 0;
      ours_ = Rate{};
    }
    if (finding != Finding::bad) return;
    ours_.add(since);
    if (++looks_ < looks_to_be_sure(since.away_bytes) || !since.may_swap || before_.now_ns < next_trial_ns_)
      return;
    is_kernels_ = true;
    began_ns_ = before_.now_ns;
    is_kept_ = is_settled_ = false;
    looks_ = 0;
    kernels_ = Rate{};
  }

  // What the program needs lies with us at first, and comes from there.
  void look_at_trial(const Look& since) {
    ++looks_;
    if (!is_settled_) {
      is_settled_ = 10 * since.waited_ns < since.now_ns || looks_ >= most_looks_to_settle;
      if (is_settled_) looks_ = 0;
      return;
    }
    kernels_.add(since);
    if (!kernels_.exceeds(ours_, 50) || (looks_ >= looks_on_trial && !kernels_.exceeds(ours_, 110)))
      return end_turn(true);
    if (looks_ < looks_on_trial) return;
    is_kept_ = true;
    kept_until_ns_ = before_.now_ns + keep_ns_;
    keep_ns_ = std::min(2 * keep_ns_, longest_pause_ns);
    pause_ns_ = first_pause_ns;
    looks_ = 0;
    kernels_ = Rate{};
  }

  void look_at_kept(const Look& since) {
    kernels_.add(since);
    if (++looks_ < looks_on_trial) return;
    const bool is_slower = !kernels_.exceeds(ours_, 100);
    looks_ = 0;
    kernels_ = Rate{};
    if (is_slower) keep_ns_ = first_pause_ns;
    if (is_slower || before_.now_ns >= kept_until_ns_) end_turn(is_slower);
  }

  void end_turn(bool in_vain) {
    is_kernels_ = false;
    looks_ = 0;
    ours_ = Rate{};
    if (!in_vain) return;
    const std::uint64_t trial_ns = is_kept_ ? 0 : before_.now_ns - began_ns_;
    next_trial_ns_ = before_.now_ns + std::max(pause_ns_, pauses_a_trial * trial_ns);
    pause_ns_ = std::min(2 * pause_ns_, longest_pause_ns);
  }

  Look before_;
  bool is_kernels_ = false;
  bool is_kept_ = false;
  bool is_settled_ = false;
  unsigned looks_ = 0;
  Rate ours_;     // while the program waited for us
  Rate kernels_;  // in the kernel's turn, of late
  std::uint64_t began_ns_ = 0;
  std::uint64_t next_trial_ns_ = 0;
  std::uint64_t kept_until_ns_ = 0;
  std::uint64_t keep_ns_ = first_pause_ns;
  std::uint64_t pause_ns_ = first_pause_ns;
};

}  // namespace terrace::liballoc
