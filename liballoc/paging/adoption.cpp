#include "liballoc/paging/adoption.h"

#include <algorithm>

#include "liballoc/paging/page_scan.h"

namespace terrace::liballoc {

void Adoption::adopt_resident() {
  PageScan scan;
  const HeapRange& heap = runs_.heap();
  const bool is_known = scan.open() == 0;
  std::byte* const end = runs_.address(runs_.top());
  PageScan::Region region{heap.base, end, false, false};
  for (std::byte* at = heap.base; at < end && (!is_known || scan.next(at, end, &region)); at = region.end) {
    for (std::byte* from = region.begin; from < region.end;) {
      const std::uint32_t n = heap.run_of(from);
      std::byte* const to = std::min(region.end, heap.address(n) + run_bytes);
      const std::uint32_t past = heap.page_of(to - os::page_bytes) + 1;
      adopt_pages(n, {heap.page_of(from), past}, region.is_huge);
      from = to;
    }
  }
  if (is_known) scan.close();
  for (std::uint32_t n = 0; n < runs_.top(); ++n) adopt_run(n);
}

void Adoption::adopt_pages(std::uint32_t n, PageRange pages, bool is_huge) {
  runs_.pages(n).in_place.add(pages);
  budget_.gain(pages.count());
  if (!is_huge) runs_[n].small = true;
}

void Adoption::adopt_run(std::uint32_t n) {
  Run& r = runs_[n];
  r.zero_fill = true;
  if (runs_.pages(n).in_place.is_empty()) return;
  r.may_have_holes = true;
  runs_.become(n, RunState::resident);
  runs_.note_arrival();
  runs_.expect_to_leave(n);
}

}  // namespace terrace::liballoc
