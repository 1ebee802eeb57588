// Takes the pages out from under an address and puts them back: the one place that speaks to userfaultfd.
//
//   take   heap run -> staging frame   the address stays, a touch of it now faults to the agent
//   put    staging frame -> heap run   wakes whoever waits for it
//
// Two ways, best first. `move`: UFFDIO_MOVE (Linux 6.8), page-table entries are moved under the kernel's
// locks, huge pages survive, pages pinned for DMA are refused with EBUSY. `mremap`: MREMAP_DONTUNMAP (5.7),
// the same for whole mappings. Single pages go back by UFFDIO_COPY, which leaves the frame as it is.
//
// MOVE also refuses pages that a forked child shares. Those cannot be pinned (pinning breaks the sharing), so
// they are taken with mremap; afterwards, when no new pin can be taken on them any more, /proc/self/pagemap
// must still call every page shared, else all go back. Source: Documentation/admin-guide/mm/pagemap.rst, bit
// 56; mm/userfaultfd.c, move_pages(); mm/gup.c, "pinned anonymous pages are exclusive".
//
// Holes. A run that was never evicted may have pages that were never touched, and those are zeroes. Any other
// page that is missing was lost: it is reported (ENOENT), never taken for zeroes. So a frame is always whole,
// and take() is told whether the run may have holes. `mremap` carries holes along and cannot tell.
//
// Only who holds the gate calls this. All functions return 0 or an errno value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/options.h"
#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

struct Fault {
  std::byte* address;  // exact since Linux 5.18, before that of its page
  bool write_protected;
};

class Mover {
 public:
  // Opens a userfaultfd that also serves the kernel's own accesses, through `device_fd` (an open
  // /dev/userfaultfd, or -1), the device itself, or the system call. EPERM: only user-mode faults would be
  // served, and read(2) into an evicted page would fail.
  int open(MoverKind wanted, int device_fd);
  // In a forked child: gives up the inherited descriptors.
  void close();

  const char* name() const;
  MoverKind kind() const { return kind_; }
  int fd() const { return fd_; }
  // False when untouched pages stay untouched on the way out and back, so that a run may always have holes.
  bool fills_holes() const { return kind_ != MoverKind::mremap; }
  // Whether the page at the address is there.
  static bool has_page(const std::byte* address);
  // Which pages of a run or a frame are there. False: that cannot be told.
  bool present(const std::byte* run, PageSet* out) const;

  // Begins to catch touches of missing pages in a heap range.
  int watch(std::byte* address, std::size_t bytes);
  int unwatch(std::byte* address, std::size_t bytes);
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
  // are there stay. 0 or errno; *done bytes are there in either case.
  int put_pages(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t* done);
  // Gives an empty frame fresh memory, huge if the kernel has it.
  int populate(std::byte* frame);
  // Takes what we move pages through out of what the kernel locked: MOVE wants both sides alike.
  void unlock() const;

  // A hole inside a run that is there: the kernel's zeroes, as if the page were touched for the first time.
  int zero_page(std::byte* address);
  int zero_pages(std::byte* address, std::size_t bytes);
  void wake(std::byte* address, std::size_t bytes);
  // Every later touch of the run raises SIGBUS.
  int poison(std::byte* run);
  // Makes a poisoned run ordinary empty memory again.
  int heal(std::byte* run);

  // Next fault, false when none is waiting.
  bool next_fault(Fault* fault);

 private:
  int open_descriptor(int device_fd);
  int choose(MoverKind wanted, std::uint64_t features);
  int adopt_all_frames();
  int register_range(std::byte* address, std::size_t bytes);
  int move(std::byte* from, std::byte* to, std::size_t bytes, bool allow_holes, std::size_t* moved);
  bool moved_unreported(std::byte* from, std::byte* to);
  static void drop_table(std::byte* run);
  int move_whole(std::byte* from, std::byte* to, bool may_have_holes);
  int move_with_holes(std::byte* run, std::byte* frame, std::size_t* moved);
  void move_back(std::byte* frame, std::byte* run, std::size_t bytes);
  int fill_holes(std::byte* address, std::size_t bytes);
  bool is_whole(std::byte* run) const;
  int make_whole(std::byte* run, bool may_have_holes);
  int move_present(std::byte* run, std::byte* frame);
  int own_pages(std::byte* run, const PageSet& pages);
  int take_shared(std::byte* run, std::byte* frame, bool may_have_holes);
  int take_shared_pages(std::byte* run, std::byte* frame, const PageSet& pages);
  int remap_shared(std::byte* run, std::byte* frame, const PageSet& pages);
  int touch_nursery();
  void give_back_remapped(std::byte* frame, std::byte* run);
  int take_by_remap(std::byte* run, std::byte* frame);
  int move_in_pieces(std::byte* from, std::byte* to, std::size_t bytes, std::size_t* moved);
  int put_by_move(std::byte* frame, std::byte* run, std::size_t* moved);
  int put_by_copy(std::byte* frame, std::byte* run, std::size_t* done, std::size_t end);
  bool take_back(std::byte* run, std::byte* frame, std::size_t moved, std::size_t done);
  int put_by_remap(std::byte* frame, std::byte* run);
  enum class Sharing { all_shared, some_exclusive };
  Sharing sharing(std::byte* run, const PageSet& pages) const;

  int fd_ = -1;
  int pagemap_fd_ = -1;
  int poison_fd_ = -1;  // an empty file: a mapping of it raises SIGBUS
  MoverKind kind_ = MoverKind::automatic;
  bool needs_registration_ = false;  // a run or a frame may have been left unwatched
  std::byte* frames_ = nullptr;      // as they were adopted
  std::size_t frames_bytes_ = 0;
  std::byte* nursery_ = nullptr;  // one unregistered run in which fresh pages are born
};

}  // namespace terrace::liballoc
