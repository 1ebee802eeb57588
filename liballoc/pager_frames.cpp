// Frames: memory that is not under its run's address, and where more of it comes from.
//
// The budget limits frames and backed runs together. So a frame is sought from the cheapest source to the
// dearest: one that is free; the memory of a recycled run, moved over without a copy; new memory, while
// the budget allows it; the frame of a run whose bytes are on the tier already.
#include <algorithm>

#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

std::uint32_t Pager::trim(std::uint32_t keep) {
  std::uint32_t given = 0;
  for (; recycled_.size() > keep && drop_recycled(recycled_.front()); ++given) continue;
  while (keep == 0 && staging_.drop_free()) {
    --backed_;
    ++given;
  }
  return given;
}

// False: nobody would learn of a touch of it, so it cannot be empty, and stays recycled.
bool Pager::drop_recycled(std::uint32_t n) {
  if (mode_ != Mode::plain && mover_->watch_again(run_address(n)) != 0) return false;
  become(n, RunState::empty);
  os::advise(run_address(n), run_bytes, MADV_DONTNEED);
  --backed_;
  return true;
}

// Takes the memory of a freed run: its content is nobody's, so one move makes it a frame.
std::uint32_t Pager::steal_recycled() {
  while (!recycled_.is_empty()) {
    const std::uint32_t n = recycled_.front();
    const std::uint32_t frame = mover_->takes_by_copy() ? none : staging_.take_absent();
    if (frame != none && mover_->take(run_address(n), staging_.address(frame), true) == 0) {
      become(n, RunState::empty);
      return frame;
    }
    if (frame != none) staging_.give_absent(frame);
    // It is shared with a child, or was never touched.
    if (!drop_recycled(n) || mover_->takes_by_copy()) break;
  }
  return none;
}

void Pager::grow_backed() {
  ++backed_;
  counts_.resident_peak_bytes = std::max(counts_.resident_peak_bytes, backed_bytes());
}

std::uint32_t Pager::create_frame(std::uint32_t allowance) {
  if (mode_ == Mode::paging && backed_ >= budget_ + allowance) return none;
  const std::uint32_t frame = staging_.take_absent();
  if (frame == none) return none;
  if (mover_->populate(staging_.address(frame)) != 0) {
    staging_.give_absent(frame);
    return none;
  }
  grow_backed();
  return frame;
}

// A frame with memory, cheapest source first; none when everything is in use and nothing may be reclaimed.
std::uint32_t Pager::take_frame(bool reclaim_cached) {
  std::uint32_t frame = staging_.take_free();
  if (frame == none) frame = steal_recycled();
  if (frame == none) frame = create_frame(0);
  if (frame == none && reclaim_cached && !(cached_.is_empty() && loaded_.is_empty())) {
    reclaim(!cached_.is_empty() ? cached_.front() : loaded_.back());
    outgrown_ = true;
    frame = staging_.take_free();
  }
  if (frame != none) ++used_frames_;
  return frame;
}

std::uint32_t Pager::take_copy_frame() {
  std::uint32_t frame = staging_.take_free();
  // Whatever the budget, or a budget that was cut could never be met: the copy frees its run at once.
  if (frame == none) frame = create_frame(run_count_);
  if (frame != none) ++used_frames_;
  return frame;
}

// Gives up the frame of a run whose bytes are on the tier.
void Pager::reclaim(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.from_read) ++counts_.prefetch_wasted;
  staging_.give_free(r.frame);
  --used_frames_;
  delist(n);
  r.frame = none;
  r.from_read = false;
  r.state = RunState::stored;
  enlist(n);
  tell(wire::EventKind::drop, n, run_bytes);
}

// Frames are kept from forked children, but these hold what lies nowhere else.
void Pager::show_stuck(bool to_children) {
  for (std::uint32_t i = 0; i < pending_count_; ++i) {
    const Run& r = runs_[pending_[(pending_head_ + i) % run_count_]];
    if (r.stuck) to_children ? staging_.expose(r.frame) : staging_.hide(r.frame);
  }
}

}  // namespace terrace::liballoc
