#include "liballoc/agent/budget.h"

#include <algorithm>

#include "liballoc/base/message.h"

namespace terrace::liballoc {

void Budget::tell_granted() {
  if (!follower_.is_open()) pager_.set_budget(granted_bytes_);
}

void Budget::follow_limit_of(const char* cgroup) {
  if (cgroup[0] == '\0') return;
  const int error = follower_.open(cgroup);
  if (error == 0) return;
  Message m(Severity::warning);
  m << "TERRACE_LIMIT_CGROUP=" << cgroup << ": not a readable memory cgroup, ";
  m.error(error) << "; the budget does not follow it";
}

void Budget::follow_limit(std::uint64_t now_ns) {
  if (!follower_.is_open() || now_ns < next_tick_ns_) return;
  next_tick_ns_ = now_ns + follower_.pause_ns();
  const bool is_dormant = take_over_.is_dormant();
  if (!is_dormant && pager_.standing().mode != Pager::Mode::paging) return;
  if (swap_ != nullptr) look_at_swapped(now_ns);
  const std::uint64_t held = is_dormant ? take_over_.held_estimate() : pager_.budget().held_bytes();
  const std::uint64_t budget = follower_.budget(held - std::min(held, swapped_bytes_), granted_bytes_);
  if (!pager_.standing().kernel_swaps) pager_.set_budget(budget);
}

void Budget::watch_swapped(const SwapState& swap) {
  if (swap_ == nullptr) swapped_before_ = swap.swapped_bytes();
  swap_ = &swap;
}

void Budget::count_swapped_from(std::uint64_t now_ns) {
  counts_since_ns_ = now_ns;
  next_swap_look_ns_ = next_tick_ns_ = 0;
}

void Budget::look_at_swapped(std::uint64_t now_ns) {
  constexpr std::uint64_t pause_ns = 50'000'000;
  constexpr std::uint64_t bytes_per_ms = 256 << 10;
  if (now_ns < next_swap_look_ns_) return;
  next_swap_look_ns_ = now_ns + pause_ns;
  const std::uint64_t swapped = swap_->swapped_bytes();
  const std::uint64_t of_turn = swapped - std::min(swapped, swapped_before_);
  KernelTurn& turn = pager_.kernel_turn();
  turn.note_swapped(of_turn);
  swapped_bytes_ = std::min(of_turn, (now_ns - counts_since_ns_) / 1'000'000 * bytes_per_ms);
  if (of_turn == 0 && !turn.is_on()) swap_ = nullptr;
}

}  // namespace terrace::liballoc
