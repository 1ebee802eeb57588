// Moves whole mappings with their pages: MREMAP_DONTUNMAP (Linux 5.7). Holes move along and cannot be told,
// and so do pages that are pinned or shared. Both sides are hidden from forked children (forking.h).
#pragma once

#include "liballoc/paging/mover/run_mover.h"
#include "liballoc/paging/mover/userfault.h"
#include "liballoc/paging/mover/watching.h"

namespace terrace::liballoc {

class RemapMover final : public RunMover {
 public:
  constexpr RemapMover(Userfault& userfault, Watching& watching)
      : userfault_(userfault), watching_(watching) {}
  ~RemapMover() = default;

  int take(std::byte* run, std::byte* frame, bool may_have_holes) override;
  int take_pages(std::byte* run, std::byte* frame, const PageSet& pages) override;
  int put(std::byte* frame, std::byte* run, bool* frame_keeps_memory) override;
  int take_fresh(std::byte* fresh, std::byte* frame) override;

  // The mapping that comes along is not watched yet. Where the kernel refuses that, the run stays: moved out
  // again it would leave a mapping that reads as zeroes.
  int put_mapping(std::byte* frame, std::byte* run);

 private:
  Userfault& userfault_;
  Watching& watching_;
};

}  // namespace terrace::liballoc
