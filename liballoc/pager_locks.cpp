// Pages that the program locked (mlock): their runs stay in DRAM.
//
// Locks are the kernel's and do not nest: a page is locked or it is not, however often it was asked for, and
// munlock() ends that. Pins are ours and are counted. So the locked pages of each run are kept as a set, and
// a run has one pin more while its set is not empty.
#include <algorithm>

#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

// 64 bytes to a run, made with the first lock: few programs lock anything.
bool Pager::make_lock_table() {
  if (locked_pages_ == nullptr) {
    locked_pages_ = static_cast<PageSet*>(
        os::map_anonymous(std::size_t{run_count_} * sizeof(PageSet), PROT_READ | PROT_WRITE));
  }
  return locked_pages_ != nullptr;
}

int Pager::lock_pages(const std::byte* begin, const std::byte* end) {
  if (!make_lock_table()) return ENOMEM;
  for (const std::byte* at = begin; at < end; at += os::page_bytes) {
    const std::uint32_t n = run_of(at);
    locked_pages_[n].add(page_in_run(at));
    if (runs_[n].locked) continue;
    runs_[n].locked = true;
    pin(n, n);
  }
  return 0;
}

bool Pager::unlock_pages(const std::byte* begin, const std::byte* end) {
  bool some = false;
  for (const std::byte* at = begin; at < end;) {
    const std::uint32_t n = run_of(at);
    const std::byte* const past = std::min<const std::byte*>(end, run_address(n) + run_bytes);
    if (runs_[n].locked) some |= unlock_pages_of(n, at, past);
    at = past;
  }
  return some;
}

bool Pager::unlock_pages_of(std::uint32_t n, const std::byte* begin, const std::byte* end) {
  PageSet& pages = locked_pages_[n];
  bool some = false;
  for (const std::byte* at = begin; at < end; at += os::page_bytes) {
    some |= pages.has(page_in_run(at));
    pages.remove(page_in_run(at));
  }
  if (!pages.is_empty()) return some;
  runs_[n].locked = false;
  unpin(n, n);
  return some;
}

void Pager::forget_locks(std::uint32_t n) {
  if (!runs_[n].locked) return;
  locked_pages_[n] = PageSet{};
  runs_[n].locked = false;
}

void Pager::unlock_all_pages(std::uint32_t top_granule) {
  if (locked_pages_ == nullptr) return;
  unlock_pages(base_, run_address((top_granule + granules_per_run - 1) / granules_per_run));
}

}  // namespace terrace::liballoc
