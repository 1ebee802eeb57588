#include "liballoc/heap/recycled_memory.h"

#include <algorithm>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t decay_window_ns = 10'000'000'000;
constexpr std::uint32_t always_recycled = 64U << 20 >> 14;     // granules
constexpr std::uint32_t given_back_at_once = 16U << 20 >> 14;  // granules

}  // namespace

void RecycledMemory::note_need() {
  window_peak_[0] = std::max(window_peak_[0], blocks_.space().live_granules());
}

bool RecycledMemory::may_decay() const {
  return !blocks_.is_recording() && blocks_.space().recycled_granules() > always_recycled;
}

// Without an agent at work nobody trims in the background: recycled memory well beyond the highest need of
// the last two windows of ten seconds goes back to the kernel on the way through free(), some with each.
void RecycledMemory::decay() {
  const std::uint64_t now = os::now_ns();
  std::uint32_t keep = 0;
  {
    const LockGuard guard(blocks_.lock());
    const std::uint32_t live = blocks_.space().live_granules();
    const std::uint32_t needed = std::max(window_peak_[0], window_peak_[1]);
    keep = always_recycled + (needed > live ? needed - live : 0);
    if (now - window_start_ns_ >= decay_window_ns) {
      window_start_ns_ = now;
      window_peak_[1] = window_peak_[0];
      window_peak_[0] = live;
    }
    if (blocks_.is_recording() || blocks_.space().recycled_granules() <= keep) return;
  }
  give_back(given_back_at_once);
}

// Claimed meanwhile, so that nobody is given it.
bool RecycledMemory::give_back(std::uint32_t most_granules) {
  AddressSpace& space = blocks_.space();
  std::uint32_t id = 0;
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  {
    const LockGuard guard(blocks_.lock());
    if (!blocks_.is_recording()) id = space.claim_recycled(most_granules);
    if (id == 0) return false;
    address = space.address(id);
    bytes = space.capacity(id);
  }
  const bool is_virgin = os::advise(address, bytes, MADV_DONTNEED) == 0;
  const LockGuard guard(blocks_.lock());
  blocks_.free(id, is_virgin);  // the agent may have begun to record, and then it knows a block here
  return is_virgin;
}

std::size_t RecycledMemory::trim() {
  const std::uint32_t before = blocks_.space().recycled_granules();
  if (blocks_.is_recording()) return 0;
  while (give_back(~0U)) continue;
  return std::size_t{before - std::min(before, blocks_.space().recycled_granules())} * granule_bytes;
}

}  // namespace terrace::liballoc
