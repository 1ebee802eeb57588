// Frames: memory that is not under its run's address, and where more of it comes from.
//
// The budget limits the pages in frames and in place together. So a frame is sought from the cheapest source
// to the dearest: one that is free; the memory of a recycled run, moved over without a copy; new memory,
// while the budget allows it; the frame of a run whose bytes are on the tier already.
#include <algorithm>

#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

void Pager::gain(std::uint32_t pages) {
  backed_pages_ += pages;
  counts_.resident_peak_bytes = std::max(counts_.resident_peak_bytes, backed_bytes());
}

std::uint32_t Pager::trim(std::uint32_t keep) {
  std::uint32_t given = 0;
  for (; recycled_.size() > keep && drop_recycled(recycled_.front()); ++given) continue;
  for (std::uint32_t pages = 1; keep == 0 && (pages = staging_.drop_free()) > 0; ++given) lose_memory(pages);
  return given;
}

// Gives the memory of a claimed run back. False: nobody would learn of a touch of it, so it cannot be empty.
bool Pager::empty_recycled(std::uint32_t n) {
  if (mover_->watch_again(run_address(n)) != 0) return false;
  if (os::advise(run_address(n), run_bytes, MADV_DONTNEED) != 0) return false;
  lose_memory(pages_[n].in_place.count());
  pages_[n] = Pages{};
  become(n, RunState::empty);
  runs_[n].small = false;
  return true;
}

// False: a block lies on it again, which is not known here yet, or it must keep its memory.
bool Pager::drop_recycled(std::uint32_t n) {
  if (!free_runs_->claim(n)) return false;
  const bool is_empty = empty_recycled(n);
  free_runs_->give_back(is_empty);
  return is_empty;
}

// Takes the memory of a freed run: its content is nobody's, so one move makes it a frame. One that is not
// whole, or not one huge page, goes back to the kernel instead.
std::uint32_t Pager::steal_recycled() {
  while (!recycled_.is_empty()) {
    const std::uint32_t n = recycled_.front();
    if (!free_runs_->claim(n)) break;
    const bool is_useful = pages_[n].in_place.is_all() && !runs_[n].small;
    const std::uint32_t frame = is_useful ? staging_.take_absent() : none;
    if (frame != none && mover_->take(run_address(n), staging_.address(frame), false) == 0) {
      pages_[n] = Pages{};
      become(n, RunState::empty);
      free_runs_->give_back(true);
      staging_.note_memory(frame, pages_per_run, false);
      return frame;
    }
    if (frame != none) staging_.give_absent(frame);
    const bool is_empty = empty_recycled(n);
    free_runs_->give_back(is_empty);
    if (!is_empty) break;
    if (const std::uint32_t fresh = create_frame(); fresh != none) return fresh;
  }
  return none;
}

std::uint32_t Pager::create_frame() {
  if (mode_ == Mode::paging && backed_pages_ + pages_per_run > budget_pages()) return none;
  const std::uint32_t frame = staging_.take_absent();
  if (frame == none) return none;
  if (mover_->populate(staging_.address(frame)) != 0) {
    staging_.give_absent(frame);
    return none;
  }
  staging_.note_memory(frame, pages_per_run, false);
  gain(pages_per_run);
  return frame;
}

// A frame with memory, cheapest source first; none when everything is in use and nothing may be reclaimed.
std::uint32_t Pager::take_frame(bool reclaim_cached) {
  std::uint32_t frame = staging_.take_free();
  if (frame == none) frame = steal_recycled();
  if (frame == none) frame = create_frame();
  // A frame that is given up may be small pages, whose memory goes: then the next one, until a new frame
  // fits.
  for (int i = 0; i < 16 && frame == none && reclaim_cached && can_reclaim(); ++i) {
    reclaim_one();
    outgrown_ = true;
    frame = staging_.take_free();
    if (frame == none) frame = create_frame();
  }
  if (frame != none) ++used_frames_;
  return frame;
}

bool Pager::can_reclaim() const { return !cached_.is_empty() || !loaded_.is_empty(); }
void Pager::reclaim_one() { reclaim(!cached_.is_empty() ? cached_.front() : loaded_.back()); }

// For pages that come singly. What is over the budget for a moment is shed when something can go.
void Pager::make_room(std::uint32_t pages) {
  for (int i = 0; i < 4 && mode_ == Mode::paging && backed_pages_ + pages > budget_pages(); ++i) {
    if (const std::uint32_t dropped = staging_.drop_free(); dropped > 0) {
      lose_memory(dropped);
    } else if (!recycled_.is_empty() && drop_recycled(recycled_.front())) {
      continue;
    } else if (can_reclaim()) {
      reclaim_one();
      outgrown_ = true;
    } else {
      return;
    }
  }
}

void Pager::release_frame(std::uint32_t frame) {
  lose_memory(staging_.release(frame));
  --used_frames_;
}

// Gives up the frame of a run whose bytes are on the tier. Pages that came back meanwhile are in place.
void Pager::reclaim(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.from_read) ++counts_.prefetch_wasted;
  delist(n);
  release_frame(r.frame);
  pages_[n].in_frame = PageSet{};
  r.frame = none;
  r.from_read = false;
  settle_state(n);
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
