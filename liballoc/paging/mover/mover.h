// Takes the pages out from under an address and puts them back.
//
//   take   heap run -> staging frame   the address stays, a touch of it now faults to the agent
//   put    staging frame -> heap run   wakes whoever waits for it
//
// Two ways, best first: `move` (uffd_mover.h) and `mremap` (remap_mover.h). Single pages go back as copies,
// which leaves the frame as it is.
//
// Holes. A run that was never evicted may have pages that were never touched, and those are zeroes. Any other
// page that is missing was lost: it is reported (ENOENT), never taken for zeroes. So a frame is always whole,
// and take() is told whether the run may have holes. `mremap` carries holes along and cannot tell.
//
// Only who holds the gate calls this. All functions return 0 or an errno value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/base/options.h"
#include "liballoc/paging/mover/nursery.h"
#include "liballoc/paging/mover/page_map.h"
#include "liballoc/paging/mover/poison.h"
#include "liballoc/paging/mover/remap_mover.h"
#include "liballoc/paging/mover/uffd_mover.h"
#include "liballoc/paging/mover/userfault.h"
#include "liballoc/paging/mover/watching.h"
#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

class Mover {
 public:
  // Opens a userfaultfd (userfault.h) and chooses the way. ENOTSUP: the kernel has not the one that is
  // wanted.
  int open(MoverKind wanted, int device_fd);
  // In a forked child: gives up the inherited descriptors.
  void close();

  const char* name() const;
  MoverKind kind() const { return kind_; }
  int fd() const { return userfault_.fd(); }
  // False when untouched pages stay untouched on the way out and back, so that a run may always have holes.
  bool fills_holes() const { return kind_ != MoverKind::mremap; }
  // Whether the page at the address is there. Any thread.
  static bool has_page(const std::byte* address) { return PageMap::has_page(address); }
  // Which pages of a run or a frame are there. False: that cannot be told.
  bool present(const std::byte* run, PageSet* out) const { return pages_.present(run, out); }

  // Begins to catch touches of missing pages in a heap range.
  int watch(std::byte* address, std::size_t bytes) { return userfault_.watch(address, bytes); }
  int unwatch(std::byte* address, std::size_t bytes) { return userfault_.unwatch(address, bytes); }
  // For a run that is there and is to lose its pages: whoever touches one that is not watched gets the
  // kernel's zeroes. A put may have left it so, when the kernel refused to watch. take() asks this by itself.
  int watch_again(std::byte* run);
  // Makes a range usable as frames, that is, as a destination of take().
  int adopt_frames(std::byte* address, std::size_t bytes);

  // What could not be taken stays in the run. ENOENT: a page is missing, and `may_have_holes` is false.
  int take(std::byte* run, std::byte* frame, bool may_have_holes);
  // The same of a run of which only `pages` are there, and nothing is filled: *taken says what has come,
  // which may be less when the program discarded some behind our back.
  int take_pages(std::byte* run, std::byte* frame, const PageSet& pages, PageSet* taken);
  // *frame_keeps_memory: the bytes were copied, the frame still has pages of its own. A failure leaves all in
  // the frame, with what the program wrote meanwhile to pages that were there for a moment, and waiting
  // threads waiting; but for ENOTRECOVERABLE, which leaves some in the frame and some in the run.
  int put(std::byte* frame, std::byte* run, bool* frame_keeps_memory);
  // Copies `bytes` from memory of ours to pages that are not there, and wakes who waits for them. Pages that
  // are there stay. *done bytes are there in either case.
  int put_pages(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t* done);
  // Gives an empty frame fresh memory, huge if the kernel has it.
  int populate(std::byte* frame);
  // Moves a whole run of memory of ours to where none is and touches are watched; its content is nobody's.
  // EBUSY: a forked child shares it, or a device has it. ENOTSUP: only mappings can be moved. A failure
  // leaves all where it was.
  int pass_on(std::byte* from, std::byte* to);
  // Takes what we move pages through out of what the kernel locked.
  void unlock() const { nursery_.unlock(); }

  // Holes inside a run that is there: the kernel's zeroes, as if the pages were touched for the first time.
  int zero_pages(std::byte* address, std::size_t bytes) { return userfault_.zero(address, bytes); }
  int zero_page(std::byte* address) {
    return zero_pages(address - reinterpret_cast<std::uintptr_t>(address) % os::page_bytes, os::page_bytes);
  }
  void wake(std::byte* address, std::size_t bytes) { userfault_.wake(address, bytes); }
  // Every later touch of the run raises SIGBUS.
  int poison(std::byte* run);
  // Makes a poisoned run ordinary empty memory again.
  int heal(std::byte* run);

  // Next fault, false when none is waiting.
  bool next_fault(Fault* fault) { return userfault_.next(fault); }

 private:
  RunMover* way();
  bool is_watched(std::byte* run, std::byte* frame);

  Userfault userfault_;
  Watching watching_{userfault_};
  PageMap pages_;
  Nursery nursery_;
  Poison poison_;
  RemapMover remap_{userfault_, watching_};
  UffdMover move_{userfault_, watching_, pages_, remap_};
  MoverKind kind_ = MoverKind::automatic;
};

}  // namespace terrace::liballoc
