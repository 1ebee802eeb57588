// Moves page-table entries under the kernel's locks: UFFDIO_MOVE (Linux 6.8). Huge pages survive; pages that
// are pinned for DMA are refused with EBUSY.
//
// MOVE also refuses pages that a forked child shares. Those cannot be pinned (pinning breaks the sharing), so
// they are taken with mremap; afterwards, when no new pin can be taken on them any more, the page map must
// still call every page shared, else all go back. Source: mm/userfaultfd.c, move_pages(); mm/gup.c, "pinned
// anonymous pages are exclusive".
#pragma once

#include "liballoc/paging/mover/page_map.h"
#include "liballoc/paging/mover/remap_mover.h"
#include "liballoc/paging/mover/run_mover.h"
#include "liballoc/paging/mover/userfault.h"
#include "liballoc/paging/mover/watching.h"

namespace terrace::liballoc {

class UffdMover final : public RunMover {
 public:
  constexpr UffdMover(Userfault& userfault, Watching& watching, const PageMap& pages, RemapMover& remap)
      : userfault_(userfault), watching_(watching), pages_(pages), remap_(remap) {}
  ~UffdMover() = default;

  int take(std::byte* run, std::byte* frame, bool may_have_holes) override;
  int take_pages(std::byte* run, std::byte* frame, const PageSet& pages) override;
  int put(std::byte* frame, std::byte* run, bool* frame_keeps_memory) override;
  int take_fresh(std::byte* fresh, std::byte* frame) override;

 private:
  int move_whole(std::byte* from, std::byte* to, bool may_have_holes);
  int move_with_holes(std::byte* run, std::byte* frame, std::size_t* moved);
  int move_present(std::byte* run, std::byte* frame);
  void move_back(std::byte* frame, std::byte* run, std::size_t bytes);
  int put_by_move(std::byte* frame, std::byte* run, std::size_t* moved);
  bool take_back(std::byte* run, std::byte* frame, std::size_t moved, std::size_t done);
  int take_shared(std::byte* run, std::byte* frame, bool may_have_holes);
  int take_shared_pages(std::byte* run, std::byte* frame, const PageSet& pages);
  int remap_shared(std::byte* run, std::byte* frame, const PageSet& pages);
  void give_back_remapped(std::byte* frame, std::byte* run);
  int make_whole(std::byte* run, bool may_have_holes);

  Userfault& userfault_;
  Watching& watching_;
  const PageMap& pages_;
  RemapMover& remap_;
};

}  // namespace terrace::liballoc
