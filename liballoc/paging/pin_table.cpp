#include "liballoc/paging/pin_table.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

// ---- pins -------------------------------------------------------------------------------------------------

void PinTable::add_pin(std::uint32_t n) {
  const RunTable::Change change(runs_, n);
  Run& r = runs_[n];
  if (r.pins == 0) ++pinned_runs_;
  if (r.pins < std::numeric_limits<std::uint16_t>::max()) ++r.pins;
}

void PinTable::remove_pins(std::uint32_t n, std::uint16_t count) {
  const RunTable::Change change(runs_, n);
  Run& r = runs_[n];
  const bool had_some = r.pins > 0;
  r.pins = static_cast<std::uint16_t>(r.pins - std::min(r.pins, count));
  if (had_some && r.pins == 0) --pinned_runs_;
}

void PinTable::pin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block) {
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    add_pin(n);
    std::uint16_t* const own = own_pins(block, n);
    if (own != nullptr && *own < std::numeric_limits<std::uint16_t>::max()) ++*own;
  }
}

void PinTable::unpin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block) {
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    std::uint16_t* const own = own_pins(block, n);
    if (own != nullptr && *own == 0) continue;  // what is pinned there is a neighbour's
    if (own != nullptr) --*own;
    remove_pins(n, 1);
  }
}

bool PinTable::can_pin(std::uint32_t first_run, std::uint32_t last_run) const {
  constexpr std::uint32_t left_to_page_with = 4;
  std::uint32_t more = 0;
  for (std::uint32_t n = first_run; n <= last_run; ++n) more += runs_[n].pins == 0 ? 1 : 0;
  const bool has_budget = standing_.mode == PagerMode::paging || standing_.mode == PagerMode::dormant;
  return !has_budget || more == 0 || pinned_runs_ + more + left_to_page_with < budget_.runs();
}

// Where the block's pins of run n are counted. Only its first run and its last may be shared: nullptr for the
// others.
std::uint16_t* PinTable::own_pins(std::uint32_t block, std::uint32_t n) {
  if (block == 0 || blocks_[block].granules == 0) return nullptr;
  KnownBlock& b = blocks_[block];
  if (n == b.first_run()) return &b.pins[0];
  return n == b.last_run() ? &b.pins[1] : nullptr;
}

void PinTable::let_go(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.pins == 0) return;
  forget_locks(n);
  remove_pins(n, r.pins);
  os::unlock(runs_.address(n), run_bytes);
  os::protect(runs_.address(n), run_bytes, PROT_READ | PROT_WRITE);
}

void PinTable::let_go_of_own(std::uint32_t block, std::uint32_t n) {
  const KnownBlock& b = blocks_[block];
  const std::uint32_t first = std::max(b.first, n * granules_per_run);
  const std::uint32_t past = std::min(b.end(), (n + 1) * granules_per_run);
  std::byte* const begin = runs_.heap().granule(first);
  const std::size_t bytes = std::size_t{past - first} * granule_bytes;
  const bool had_locks = unlock(begin, begin + bytes);
  std::uint16_t* const own = own_pins(block, n);
  const bool had_pins = own != nullptr && *own > 0;
  if (had_pins) {
    remove_pins(n, *own);
    *own = 0;
  }
  if (!had_pins && !had_locks) return;
  os::unlock(begin, bytes);
  os::protect(begin, bytes, PROT_READ | PROT_WRITE);
}

// ---- locks ------------------------------------------------------------------------------------------------

// 64 bytes to a run, made with the first lock: few programs lock anything.
bool PinTable::make_lock_table() {
  if (locked_pages_ == nullptr) {
    locked_pages_ = static_cast<PageSet*>(
        os::map_anonymous(std::size_t{runs_.size()} * sizeof(PageSet), PROT_READ | PROT_WRITE));
  }
  return locked_pages_ != nullptr;
}

int PinTable::lock(const std::byte* begin, const std::byte* end) {
  if (!make_lock_table()) return ENOMEM;
  const HeapRange& heap = runs_.heap();
  for (const std::byte* at = begin; at < end; at += os::page_bytes) {
    const std::uint32_t n = heap.run_of(at);
    locked_pages_[n].add(heap.page_of(at));
    if (runs_[n].locked) continue;
    runs_[n].locked = true;
    add_pin(n);
  }
  return 0;
}

bool PinTable::unlock(const std::byte* begin, const std::byte* end) {
  bool some = false;
  for (const std::byte* at = begin; at < end;) {
    const std::uint32_t n = runs_.heap().run_of(at);
    const std::byte* const past = std::min<const std::byte*>(end, runs_.address(n) + run_bytes);
    if (runs_[n].locked) some |= unlock_pages_of(n, at, past);
    at = past;
  }
  return some;
}

bool PinTable::unlock_pages_of(std::uint32_t n, const std::byte* begin, const std::byte* end) {
  PageSet& pages = locked_pages_[n];
  bool some = false;
  for (const std::byte* at = begin; at < end; at += os::page_bytes) {
    const std::uint32_t page = runs_.heap().page_of(at);
    some |= pages.has(page);
    pages.remove(page);
  }
  if (!pages.is_empty()) return some;
  runs_[n].locked = false;
  remove_pins(n, 1);
  return some;
}

void PinTable::forget_locks(std::uint32_t n) {
  if (!runs_[n].locked) return;
  locked_pages_[n] = PageSet{};
  runs_[n].locked = false;
}

void PinTable::unlock_all(std::uint32_t top_granule) {
  if (locked_pages_ == nullptr) return;
  unlock(runs_.heap().base, runs_.address((top_granule + granules_per_run - 1) / granules_per_run));
}

}  // namespace terrace::liballoc
