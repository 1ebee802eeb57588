#include "liballoc/paging/mover/uffd_mover.h"

#include <cerrno>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr int busy_retries = 16;

// Small pages that were there leave an empty page table behind, and a huge page that is moved to where one is
// is split, for good. The kernel drops it with what is not there (CONFIG_PT_RECLAIM, Linux 6.14); before that
// the run stays in small pages.
void drop_table(std::byte* run) { os::advise(run, run_bytes, MADV_DONTNEED); }

// A write fault without a write gives this process pages of its own wherever they are still shared (or were
// once). What MOVE refuses after that is pinned. MOVE asks only the head of a huge page whether it is ours
// alone, so what is left of one whose head was copied would be refused for good (Linux 6.18 at least). COLD
// splits what is left, unless it is pinned. All of `pages` must be there: a touch of one that is not would
// wait for this thread.
int own_pages(std::byte* run, const PageSet& pages) {
  for (PageRange range = pages.next(0); range.count() > 0; range = pages.next(range.end))
    if (os::advise(run + range.offset(), range.bytes(), os::advice_populate_write) != 0) return EBUSY;
  os::advise(run, run_bytes, MADV_COLD);
  return 0;
}

}  // namespace

// ---- taking -----------------------------------------------------------------------------------------------

int UffdMover::take(std::byte* run, std::byte* frame, bool may_have_holes) {
  drop_table(frame);
  const int error = move_whole(run, frame, may_have_holes);
  return error == EBUSY && pages_.is_open() ? take_shared(run, frame, may_have_holes) : error;
}

int UffdMover::take_pages(std::byte* run, std::byte* frame, const PageSet& pages) {
  const int error = move_present(run, frame);
  return error == EBUSY ? take_shared_pages(run, frame, pages) : error;
}

int UffdMover::take_fresh(std::byte* fresh, std::byte* frame) {
  drop_table(frame);
  return move_whole(fresh, frame, false);
}

// All or nothing: what had moved before a failure goes back.
int UffdMover::move_whole(std::byte* from, std::byte* to, bool may_have_holes) {
  std::size_t moved = 0;
  int error = userfault_.move(from, to, run_bytes, false, &moved);
  if (error == ENOENT && may_have_holes) error = move_with_holes(from, to, &moved);
  if (error != 0 && moved > 0) move_back(to, from, moved);
  return error;
}

// Some pages of the run were never touched: move the rest and fill the gaps with zeroes, since the kernel
// must find every page of a frame that it writes to a device (a touch of a gap would wait for this thread).
int UffdMover::move_with_holes(std::byte* run, std::byte* frame, std::size_t* moved) {
  const std::size_t from = *moved;
  std::size_t more = 0;
  const int error = userfault_.move(run + from, frame + from, run_bytes - from, true, &more);
  *moved += more;
  return error != 0 ? error : userfault_.fill_holes(frame + from, run_bytes - from);
}

int UffdMover::move_present(std::byte* run, std::byte* frame) {
  std::size_t moved = 0;
  const int error = userfault_.move(run, frame, run_bytes, true, &moved);
  if (error != 0 && moved > 0) move_back(frame, run, moved);
  return error;
}

// Pages that MOVE refuses are copied; then the frame must not keep its own, or the next take() finds them.
void UffdMover::move_back(std::byte* frame, std::byte* run, std::size_t bytes) {
  std::size_t returned = 0;
  if (userfault_.move(frame, run, bytes, true, &returned) == 0) return;
  if (userfault_.copy_run(frame, run, &returned, bytes) == 0) os::advise(frame, run_bytes, MADV_DONTNEED);
}

// ---- taking what is shared --------------------------------------------------------------------------------

// MOVE said EBUSY: pinned for DMA, or shared with a forked child (or shared once and not written since).
int UffdMover::take_shared(std::byte* run, std::byte* frame, bool may_have_holes) {
  if (pages_.all_shared(run, PageSet::all())) return remap_shared(run, frame, PageSet::all());
  if (const int error = make_whole(run, may_have_holes); error != 0) return error;
  if (const int error = own_pages(run, PageSet::all()); error != 0) return error;
  return move_whole(run, frame, may_have_holes);
}

int UffdMover::take_shared_pages(std::byte* run, std::byte* frame, const PageSet& pages) {
  if (pages_.all_shared(run, pages)) return remap_shared(run, frame, pages);
  PageSet there;
  if (!pages_.present(run, &there) || !(pages - there).is_empty()) return EBUSY;
  if (const int error = own_pages(run, pages); error != 0) return error;
  return move_present(run, frame);
}

// Fills holes where there may be some. Without a page map nobody knows, and filling is harmless.
int UffdMover::make_whole(std::byte* run, bool may_have_holes) {
  if (pages_.is_whole(run)) return 0;
  return may_have_holes || !pages_.is_open() ? userfault_.fill_holes(run, run_bytes) : ENOENT;
}

// Taken so that no new pin can come; and back, if one came before.
int UffdMover::remap_shared(std::byte* run, std::byte* frame, const PageSet& pages) {
  if (remap_.take(run, frame, true) != 0) return EBUSY;
  if (pages_.all_shared(frame, pages) && watching_.watch_frames() == 0) return 0;
  give_back_remapped(frame, run);
  return EBUSY;
}

// Not taken after all, so nothing may stay in the frame; which nobody watches, so it can be read.
void UffdMover::give_back_remapped(std::byte* frame, std::byte* run) {
  userfault_.unwatch(frame, run_bytes);
  if (remap_.put_mapping(frame, run) != 0) {
    std::size_t done = 0;
    if (userfault_.copy_run(frame, run, &done, run_bytes) == 0) os::advise(frame, run_bytes, MADV_DONTNEED);
  }
  if (watching_.watch_frames() != 0) watching_.note_unwatched();
}

// ---- putting back -----------------------------------------------------------------------------------------

int UffdMover::put(std::byte* frame, std::byte* run, bool* frame_keeps_memory) {
  drop_table(run);
  std::size_t moved = 0;
  int error = put_by_move(frame, run, &moved);
  if (error == 0) return 0;
  // Still EBUSY: the frame's pages are shared with a child. EINVAL: what protects the run is not what
  // protects the frame. Copy what has not moved: the rest is not in the frame any more, and touching it there
  // would wait for this thread.
  std::size_t done = moved;
  if (error == EBUSY || error == EAGAIN || error == EEXIST || error == EINVAL) {
    error = userfault_.copy_run(frame, run, &done, run_bytes);
  }
  *frame_keeps_memory = error == 0;
  return error != 0 && !take_back(run, frame, moved, done) ? ENOTRECOVERABLE : error;
}

int UffdMover::put_by_move(std::byte* frame, std::byte* run, std::size_t* moved) {
  int error = userfault_.move_in_pieces(frame, run, run_bytes, moved);
  // The block layer lets go of the pages of a finished read a little after it reports its end.
  for (int attempt = 0; error == EBUSY && attempt < busy_retries; ++attempt) {
    syscall(SYS_sched_yield);
    std::size_t more = 0;
    error = userfault_.move_in_pieces(frame + *moved, run + *moved, run_bytes - *moved, &more);
    *moved += more;
  }
  return error;
}

// The way back of a put that failed on its way: [0, moved) is not in the frame any more, [moved, done) is in
// both, and the program may have written to either since.
bool UffdMover::take_back(std::byte* run, std::byte* frame, std::size_t moved, std::size_t done) {
  if (done == 0) return true;
  if (done > moved) os::advise(frame + moved, done - moved, MADV_DONTNEED);
  std::size_t returned = 0;
  return userfault_.move_in_pieces(run, frame, done, &returned) == 0;
}

}  // namespace terrace::liballoc
