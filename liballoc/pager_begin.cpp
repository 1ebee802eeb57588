// The pager takes over: memory has become short, and what the kernel backed by itself becomes known.
//
// First the heap's range is watched: from then on no page appears but through us. Only then is it known how
// far up there may be pages, as threads allocate and write all the time, and the kernel is asked which are
// there (paging/page_scan.h). A page that is not there was never touched, so its first touch
// must read zeroes, as it would have. What the program discards is never touched again in the same sense.
#include <algorithm>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"
#include "liballoc/paging/page_scan.h"

namespace terrace::liballoc {

int Pager::watch() {
  const int error = mover_->watch(base_, std::size_t{run_count_} * run_bytes);
  if (error != 0) mode_ = Mode::plain;
  return error;
}

void Pager::take_over() {
  hide_heap(true);
  mode_ = Mode::paging;
  adopt_resident();
}

// Whom this process makes by a bare clone(2) finds a hole, not zeroes in place of what is away; a fork shows
// all.
void Pager::hide_heap(bool from_children) {
  os::advise(base_, std::size_t{run_count_} * run_bytes, from_children ? MADV_DONTFORK : MADV_DOFORK);
}

void Pager::adopt_resident() {
  PageScan scan;
  const bool is_known = scan.open() == 0;
  std::byte* const end = run_address(top_run_);
  PageScan::Region region{base_, end, false, false};
  for (std::byte* at = base_; at < end && (!is_known || scan.next(at, end, &region)); at = region.end) {
    for (std::byte* from = region.begin; from < region.end;) {
      const std::uint32_t n = run_of(from);
      std::byte* const to = std::min(region.end, run_address(n) + run_bytes);
      const auto page = [&](const std::byte* address) {
        return static_cast<std::uint32_t>(static_cast<std::size_t>(address - run_address(n)) /
                                          os::page_bytes);
      };
      adopt_pages(n, {page(from), page(to)}, region.is_huge);
      from = to;
    }
  }
  if (is_known) scan.close();
  for (std::uint32_t n = 0; n < top_run_; ++n) adopt_run(n);
}

void Pager::adopt_pages(std::uint32_t n, PageRange pages, bool is_huge) {
  pages_[n].in_place.add(pages);
  gain(pages.count());
  if (!is_huge) runs_[n].small = true;
}

void Pager::adopt_run(std::uint32_t n) {
  Run& r = runs_[n];
  r.zero_fill = true;
  if (pages_[n].in_place.is_empty()) return;
  r.may_have_holes = true;
  become(n, RunState::resident);
  ++arrivals_;
}

void Pager::forget(const std::byte* begin, const std::byte* end) {
  for (std::uint32_t n = run_of(begin); n <= run_of(end - 1); ++n) {
    const std::byte* const from = std::max<const std::byte*>(begin, run_address(n));
    const std::byte* const to = std::min<const std::byte*>(end, run_address(n) + run_bytes);
    const auto page = [&](const std::byte* address) {
      return static_cast<std::uint32_t>(static_cast<std::size_t>(address - run_address(n)) / os::page_bytes);
    };
    forget_pages(n, {page(from), page(to)});
  }
}

void Pager::forget_pages(std::uint32_t n, PageRange range) {
  Run& r = runs_[n];
  Pages& p = pages_[n];
  if (r.state == RunState::empty) r.zero_fill = true;
  if (r.state == RunState::empty || r.state == RunState::lost) return;
  const PageSet gone = PageSet::of(range);
  mover_->watch_again(run_address(n));
  lose_memory((p.in_place & gone).count());
  p.in_place -= gone;
  p.in_frame -= gone;
  p.stored -= gone;
  for (Operation& op : operations_)
    if (op.busy && op.run == n) op.pages -= gone;
  if (r.frame == none) {
    delist(n);
    settle_state(n);
  } else if (p.in_frame.is_empty() && !r.in_flight && r.state != RunState::reading) {
    delist(n);
    unstick(r);
    r.held = false;
    reclaim(n);
  }
  r.waiting = false;
  mover_->wake(run_address(n), run_bytes);  // it faults again, and finds zeroes
}

}  // namespace terrace::liballoc
