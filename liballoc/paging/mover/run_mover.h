// A way of moving a run's pages to a frame and back. Contracts: mover.h. Without a virtual destructor: they
// are members of Mover.
#pragma once

#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

class RunMover {
 public:
  // What could not be taken stays in the run.
  virtual int take(std::byte* run, std::byte* frame, bool may_have_holes) = 0;
  // Of a run of which only `pages` are there; fewer may come.
  virtual int take_pages(std::byte* run, std::byte* frame, const PageSet& pages) = 0;
  virtual int put(std::byte* frame, std::byte* run, bool* frame_keeps_memory) = 0;
  // Moves a whole run of fresh memory that nobody watches under an empty frame.
  virtual int take_fresh(std::byte* fresh, std::byte* frame) = 0;

 protected:
  constexpr RunMover() = default;
  ~RunMover() = default;
};

}  // namespace terrace::liballoc
