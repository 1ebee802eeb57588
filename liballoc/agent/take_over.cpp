#include "liballoc/agent/take_over.h"

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t look_ns = 100'000'000;

const std::uint32_t* raw(const std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<const std::uint32_t*>(&word);
}

}  // namespace

void TakeOver::prepare() {
  high_water_.open();
  high_water_.set_budget(guarded_.pager.budget().bytes());
  blocks_.wake_at(high_water_.mark_bytes());
}

void TakeOver::look() {
  Pager& pager = guarded_.pager;
  const std::uint64_t spread = blocks_.spread_bytes();
  high_water_.set_budget(pager.budget().bytes());
  std::byte* const top =
      pager.runs().heap().address(0) + std::uint64_t{blocks_.space().top()} * granule_bytes;
  const bool is_short = high_water_.is_reached(spread, pager.runs().heap().address(0), top);
  if (is_short || wanted_.load() != 0) {
    begin_paging();
    return answer();
  }
  if (spread <= high_water_.mark_bytes()) blocks_.wake_at(high_water_.mark_bytes());
}

// Memory has become short: from here on it is the agent that backs it.
void TakeOver::begin_paging() {
  Pager& pager = guarded_.pager;
  huge_pages_.switch_off();
  blocks_.begin_recording(pager);
  pager.follow_blocks();
  if (pager.watch() == 0) {
    blocks_.tell_top(pager);
    pager.take_over();
    return high_water_.close();
  }
  blocks_.end_recording();
  mover_.close();  // it may watch a part of the heap, which nobody will serve
  availability_.give_up("userfaultfd refuses the heap's range");
}

void TakeOver::answer() {
  wanted_.store(0);
  os::futex_wake(raw(wanted_), 1 << 30);
}

bool TakeOver::ensure_paging() {
  const auto sleeps = [this] {
    const InsideGate gate(guarded_);
    return is_dormant();
  };
  while (sleeps()) {
    wanted_.store(1);
    waker_.kick();
    os::futex_wait_for(raw(wanted_), 1, look_ns);
  }
  const InsideGate gate(guarded_);
  return guarded_.pager.is_paging();
}

void TakeOver::reset_in_child() {
  wanted_.store(0);
  high_water_.close();
}

}  // namespace terrace::liballoc
