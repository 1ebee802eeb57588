#include "liballoc/paging/memory/frames.h"

#include "liballoc/base/os.h"

namespace terrace::liballoc {

int Frames::initialise(std::uint32_t frames, Mover* mover) {
  mover_ = mover;
  return staging_.initialise(frames, mover);
}

// ---- recycled memory --------------------------------------------------------------------------------------

std::uint32_t Frames::trim(std::uint32_t keep) {
  const RunList& recycled = runs_.lists().recycled;
  std::uint32_t given = 0;
  for (; recycled.size() > keep && drop_recycled(recycled.front()); ++given) continue;
  for (std::uint32_t pages = 1; keep == 0 && (pages = staging_.drop_free()) > 0; ++given) budget_.lose(pages);
  return given;
}

// Gives the memory of a claimed run back. False: nobody would learn of a touch of it, so it cannot be empty.
bool Frames::empty_recycled(std::uint32_t n) {
  if (mover_->watch_again(runs_.address(n)) != 0) return false;
  if (os::advise(runs_.address(n), run_bytes, MADV_DONTNEED) != 0) return false;
  budget_.lose(runs_.pages(n).in_place.count());
  runs_.pages(n) = Pages{};
  runs_.become(n, RunState::empty);
  runs_[n].small = false;
  return true;
}

bool Frames::drop_recycled(std::uint32_t n) {
  if (!free_runs_->claim(n)) return false;
  const bool is_empty = empty_recycled(n);
  free_runs_->give_back(is_empty);
  return is_empty;
}

// Takes the memory of a freed run: its content is nobody's, so one move makes it a frame. One that is not
// whole, or not one huge page, goes back to the kernel instead.
std::uint32_t Frames::steal_recycled() {
  const RunList& recycled = runs_.lists().recycled;
  while (!recycled.is_empty()) {
    const std::uint32_t n = recycled.front();
    if (!free_runs_->claim(n)) break;
    const bool is_useful = runs_.pages(n).in_place.is_all() && !runs_[n].small;
    const std::uint32_t frame = is_useful ? staging_.take_absent() : none;
    if (frame != none && mover_->take(runs_.address(n), staging_.address(frame), false) == 0) {
      runs_.pages(n) = Pages{};
      runs_.become(n, RunState::empty);
      free_runs_->give_back(true);
      staging_.note_memory(frame, pages_per_run, false);
      return frame;
    }
    if (frame != none) staging_.give_absent(frame);
    const bool is_empty = empty_recycled(n);
    free_runs_->give_back(is_empty);
    if (!is_empty) break;
    if (const std::uint32_t fresh = create(); fresh != none) return fresh;
  }
  return none;
}

// ---- taking and giving ------------------------------------------------------------------------------------

std::uint32_t Frames::create() {
  if (standing_.mode == PagerMode::paging && !budget_.has_room_for(pages_per_run)) return none;
  const std::uint32_t frame = staging_.take_absent();
  if (frame == none) return none;
  if (mover_->populate(staging_.address(frame)) != 0) {
    staging_.give_absent(frame);
    return none;
  }
  staging_.note_memory(frame, pages_per_run, false);
  budget_.gain(pages_per_run);
  return frame;
}

std::uint32_t Frames::take(bool may_reclaim) {
  constexpr int most_reclaimed = 16;
  std::uint32_t frame = staging_.take_free();
  if (frame == none) frame = steal_recycled();
  if (frame == none) frame = create();
  // A frame that is given up may be small pages, whose memory goes: then the next one, until a new frame
  // fits.
  for (int i = 0; i < most_reclaimed && frame == none && may_reclaim && can_reclaim(); ++i) {
    reclaim_one();
    budget_.note_outgrown();
    frame = staging_.take_free();
    if (frame == none) frame = create();
  }
  if (frame != none) ++used_;
  return frame;
}

void Frames::free_one() {
  constexpr int most_reclaimed = 16;
  if (staging_.free_frames() > 0) return;
  std::uint32_t frame = steal_recycled();
  if (frame == none) frame = create();
  if (frame != none) budget_.lose(staging_.release(frame));
  const RunList& cached = runs_.lists().cached;
  for (int i = 0; i < most_reclaimed && staging_.free_frames() == 0 && !cached.is_empty(); ++i)
    reclaim(cached.front());
}

bool Frames::can_take() const {
  return staging_.free_frames() > 0 || !runs_.lists().recycled.is_empty() ||
         budget_.has_room_for(pages_per_run) || standing_.mode == PagerMode::restore || can_reclaim();
}

void Frames::release(std::uint32_t frame) {
  budget_.lose(staging_.release(frame));
  --used_;
}

bool Frames::can_reclaim() const {
  return !runs_.lists().cached.is_empty() || !runs_.lists().loaded.is_empty();
}

void Frames::reclaim_one() {
  const RunLists& lists = runs_.lists();
  reclaim(!lists.cached.is_empty() ? lists.cached.front() : lists.loaded.back());
}

void Frames::reclaim(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.from_read) ++accounts_.counts.prefetch_wasted;
  {
    const RunTable::Change change(runs_, n);
    release(r.frame);
    runs_.pages(n).in_frame = PageSet{};
    r.frame = none;
    r.from_read = false;
    extents_.settle(n);
    r.left_empty = r.state == RunState::empty && r.live > 0;
  }
  accounts_.tell(wire::EventKind::drop, n, run_bytes);
}

bool Frames::make_room(std::uint32_t pages) {
  constexpr int most_steps = 4;
  const auto has_room = [&] { return standing_.mode != PagerMode::paging || budget_.has_room_for(pages); };
  for (int i = 0; i < most_steps && !has_room(); ++i) {
    const std::uint32_t dropped = staging_.drop_free();
    budget_.lose(dropped);
    if (dropped > 0) continue;
    if (!runs_.lists().recycled.is_empty() && drop_recycled(runs_.lists().recycled.front())) continue;
    if (!can_reclaim()) return false;
    reclaim_one();
    budget_.note_outgrown();
  }
  return has_room();
}

bool Frames::shed() {
  if (standing_.mode != PagerMode::paging || !budget_.is_over()) return false;
  const std::uint32_t dropped = staging_.drop_free();
  budget_.lose(dropped);
  if (dropped > 0) return true;
  if (!runs_.lists().recycled.is_empty() && drop_recycled(runs_.lists().recycled.front())) return true;
  if (!can_reclaim()) return false;
  reclaim_one();
  return true;
}

}  // namespace terrace::liballoc
