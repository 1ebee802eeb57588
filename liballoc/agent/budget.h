// What the heap may hold: what was asked for or granted, and less where a cgroup's limit leaves less
// (budget_follower.h). The agent's, with the gate.
#pragma once

#include <cstdint>

#include "liballoc/agent/budget_follower.h"
#include "liballoc/agent/swap/swap_state.h"
#include "liballoc/agent/take_over.h"
#include "liballoc/paging/pager.h"

namespace terrace::liballoc {

class Budget {
 public:
  constexpr Budget(Pager& pager, TakeOver& take_over) : pager_(pager), take_over_(take_over) {}

  // What there is before the pager is told: the environment's word, or the daemon's.
  void set_granted(std::uint64_t bytes) { granted_bytes_ = bytes; }
  std::uint64_t granted_bytes() const { return granted_bytes_; }
  // Tells the pager, unless a limit is followed, whose next tick will.
  void tell_granted();

  // From now on a cgroup's limit counts, too; "": none.
  void follow_limit_of(const char* cgroup);
  void close() { follower_.close(); }
  bool follows_limit() const { return follower_.is_open(); }
  // How long the agent may sleep at most.
  int pause_ms() const {
    return follower_.is_open() ? static_cast<int>(follower_.pause_ns() / 1'000'000) : 100;
  }
  // What the kernel swaps of the heap takes no memory, and will when it is touched. From here on it is looked
  // at, until all is back.
  void watch_swapped(const SwapState& swap);
  // From now on the budget holds, and what is swapped counts as not held: at first little of it, then ever
  // more, since the program is to be served while the heap shrinks.
  void count_swapped_from(std::uint64_t now_ns);
  // Reads the limit if it is time to.
  void follow_limit(std::uint64_t now_ns);
  std::uint64_t cgroup_usage_bytes() const { return follower_.usage_bytes(); }
  // Of that, what cannot be reclaimed without swap, as of the last look.
  std::uint64_t cgroup_kept_bytes() const { return follower_.kept_bytes(); }
  std::uint64_t cgroup_limit_bytes() const { return follower_.limit_bytes(); }

 private:
  void look_at_swapped(std::uint64_t now_ns);

  Pager& pager_;
  TakeOver& take_over_;
  std::uint64_t granted_bytes_ = 0;
  std::uint64_t next_tick_ns_ = 0;
  BudgetFollower follower_;
  const SwapState* swap_ = nullptr;  // while it is watched
  std::uint64_t swapped_before_ = 0;
  std::uint64_t counts_since_ns_ = 0;  // never before the kernel's turn has ended
  std::uint64_t swapped_bytes_ = 0;    // what counts of it
  std::uint64_t next_swap_look_ns_ = 0;
};

}  // namespace terrace::liballoc
