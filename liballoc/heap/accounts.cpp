#include "liballoc/heap/accounts.h"

#include <algorithm>

namespace terrace::liballoc {

void HeapAccounts::block_came(bool is_virgin) {
  ++allocations_;
  recycled_allocations_ += is_virgin ? 0 : 1;
  peak_granules_ = std::max(peak_granules_, blocks_.space().live_granules());
  peak_spread_ = std::max(peak_spread_, blocks_.spread_granules());
}

void HeapAccounts::block_grew() {
  peak_granules_ = std::max(peak_granules_, blocks_.space().live_granules());
}

void HeapAccounts::read(terrace_statistics* out) {
  {
    const InsideGate gate(guarded_);
    guarded_.pager.fill(out);
  }
  const LockGuard guard(blocks_.lock());
  add_counts(out);
}

void HeapAccounts::read_as_agent(terrace_statistics* out) {
  guarded_.pager.fill(out);
  if (!blocks_.lock().try_lock_for_a_while()) return;  // those of the blocks come with the next
  add_counts(out);
  blocks_.lock().unlock();
}

// What the pager does not count while memory is the kernel's: no more than was handed out.
void HeapAccounts::add_counts(terrace_statistics* out) const {
  const auto bytes = [](std::uint32_t granules) { return std::uint64_t{granules} * granule_bytes; };
  const AddressSpace& space = blocks_.space();
  out->allocations = allocations_;
  out->frees = frees_;
  out->recycled_allocations = recycled_allocations_;
  out->heap_live_bytes = bytes(space.live_granules());
  out->heap_peak_bytes = bytes(peak_granules_);
  if (guarded_.pager.is_paging()) return;
  if (guarded_.pager.standing().mode == Pager::Mode::plain) {
    out->resident_bytes = blocks_.spread_bytes();
    out->resident_peak_bytes = bytes(peak_spread_);
  }
  out->recycled_bytes = std::min(out->resident_bytes, bytes(space.recycled_granules()));
}

}  // namespace terrace::liballoc
