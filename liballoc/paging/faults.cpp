#include "liballoc/paging/faults.h"

#include <algorithm>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr unsigned pieces_for_touches = 8;  // not taken by what only may be touched

}  // namespace

void Faults::handle(const Fault& fault) {
  const HeapRange& heap = parts_.runs.heap();
  const std::uint32_t n = heap.run_of(fault.address);
  if (n >= heap.runs) return;  // a frame: nobody but the agent touches those
  const std::uint32_t page = heap.page_of(fault.address);
  note_touch_of_trial(n);
  arrivals_.touched(parts_.runs.arrivals());
  ++parts_.accounts.counts.faults;
  parts_.policy.on_fault(fault.thread);
  look_at_trial();
  parts_.runs.know_top(n + 1);
  Run& r = parts_.runs[n];
  const Pages& p = parts_.runs.pages(n);
  if (r.state == RunState::lost) return mover_->wake(heap.address(n), run_bytes);
  if (p.in_place.has(page)) return fault_in_place(n, page);
  const bool is_away = p.in_frame.has(page) || p.stored.has(page);
  if (!is_away && r.state != RunState::empty) return bring_zeroes(n, page);
  if (listener_ != nullptr) listener_->on_touched(n);
  if (!r.waiting) {
    r.wait_since_ns = os::now_ns();
    if (is_away && !r.probed) parts_.policy.on_missing(n);
  }
  r.waiting = true;
  if (r.probed) return static_cast<void>(parts_.placement.end_probe(n));
  parts_.accounts.tell(wire::EventKind::fault, n, run_bytes);
  if (!is_away) return bring_fresh(n, page);
  if (parts_.standing.kernel_swaps) return hand_over(n, page);
  // A stream that is as fast as the drive touches the same place in each run: that is no stride.
  const bool goes_on = r.state == RunState::reading || r.queued || follows(n);
  const bool is_whole = goes_on || (r.dense && !parts_.blocks.is_sparse(r.block)) || is_cheap(n);
  const Strides::Ahead ahead = is_whole ? Strides::Ahead{} : strides_.touched(heap.offset_of(fault.address));
  const bool is_strided = ahead.count > 0;
  note_lone_touch(n, is_strided || ahead.is_expected);
  p.in_frame.has(page) ? bring_from_frame(n, page, is_strided) : bring_from_tier(n, page, is_strided);
  if (is_strided) bring_strides(n, ahead);
}

// A page that lies nowhere, of a run of which others do. What comes whole brings it along.
void Faults::bring_zeroes(std::uint32_t n, std::uint32_t page) {
  Run& r = parts_.runs[n];
  const TierOperation* const op = r.state == RunState::reading ? parts_.operations.of_run(n) : nullptr;
  const bool comes = op != nullptr && op->fills_up;
  if (!comes && !parts_.transfers.comes_whole(n)) return parts_.placement.show_zeroes(n, reach_of(n, page));
  const bool is_on_its_way = comes || r.queued;
  const PageRange reach = is_on_its_way ? whole_run : reach_of(n, page);
  if (reach.count() < pages_per_run || r.pieces > 0) return parts_.placement.show_zeroes(n, reach);
  if (listener_ != nullptr) listener_->on_touched(n);
  if (!r.waiting) {
    r.wait_since_ns = os::now_ns();
    parts_.policy.on_missing(n);
  }
  r.waiting = true;
  if (is_on_its_way) return;
  WholeRuns::comes_whole(r.lone);
  parts_.line.join(n);
  parts_.policy.on_use(n, true);
}

// What lies with us goes to the kernel, each run as a whole and once. Nothing is learned from it.
void Faults::hand_over(std::uint32_t n, std::uint32_t page) {
  const Run& r = parts_.runs[n];
  if (!parts_.runs.pages(n).in_frame.has(page)) return bring_from_tier(n, page, false);
  if (!r.stuck) bring_all_from_frame(n);
}

// It came back since the fault was raised. Else somebody took it from behind our back: a hole that the
// program made, or a loss.
void Faults::fault_in_place(std::uint32_t n, std::uint32_t page) {
  std::byte* const address = parts_.runs.address(n) + std::size_t{page} * os::page_bytes;
  if (Mover::has_page(address)) return mover_->wake(address, os::page_bytes);
  if (mover_->kind() == MoverKind::mremap) parts_.runs[n].may_have_holes = true;  // it may carry holes along
  if (parts_.placement.miss(n, PageSet::of({page, page + 1})))
    return parts_.placement.lose(n, "a page of it has vanished", EFAULT);
  parts_.placement.show_zeroes(n, {page, page + 1});
}

// The run before it has just come as a whole.
bool Faults::follows(std::uint32_t n) const {
  constexpr std::uint32_t just_now = 8;
  if (n == 0 || parts_.runs[n].block == 0) return false;
  const Run& before = parts_.runs[n - 1];
  return before.block == parts_.runs[n].block && before.state == RunState::resident && !before.scattered &&
         arrivals_.has(before.arrival, just_now) && parts_.runs.pages(n - 1).in_place.is_all();
}

// It came as a whole before, and one beside it has done so just now. Threads that share a matrix touch its
// runs in the middle, out of order: none of these touches looks like a stream.
bool Faults::comes_whole_again(std::uint32_t n) const {
  const RunTable& runs = parts_.runs;
  const std::uint32_t block = runs[n].block;
  if (runs[n].returns == 0 || block == 0 || parts_.blocks.is_scattered(block)) return false;
  const auto has_come = [&](std::uint32_t m) {
    return m < runs.size() && runs[m].block == block && runs[m].state == RunState::resident &&
           arrivals_.has(runs[m].came, RecentArrivals::most_kept) && runs.pages(m).in_place.is_all();
  };
  return has_come(n + 1) || (n > 0 && has_come(n - 1));
}

// All of its block could come and drive out little. Then a few touches are enough to bring it: planes of an
// image that are read side by side look like scattered ones at first. Not where few pages of small blocks are
// used: many of these together drive out much.
bool Faults::is_cheap(std::uint32_t n) const {
  return !small_blocks_.is_sparse() && parts_.blocks.is_small(parts_.runs[n].block, parts_.budget.pages());
}

// Of a block of which few pages are used nothing but a run's own touches say so.
bool Faults::is_used_whole(std::uint32_t n, std::uint32_t page) const {
  const Run& r = parts_.runs[n];
  if (parts_.blocks.is_sparse(r.block)) return false;
  const bool comes_in_pages = r.scattered && !parts_.runs.pages(n).in_place.is_empty();
  const bool is_first = page == 0 || page == r.head;
  const bool begins = is_first && !comes_in_pages && !parts_.blocks.is_scattered(r.block);
  // In small pages one page comes ten times as fast as all of them: a few are tried first.
  constexpr std::uint32_t few = 8;
  const bool is_cheap_move = r.frame == none || !parts_.staging.is_small(r.frame);
  const bool is_dense = r.dense && (is_cheap_move || parts_.runs.pages(n).in_place.count() >= few);
  return begins || follows(n) || is_dense;
}

// Pages that come in place of a run need memory beside the frame that the others are in.
bool Faults::has_room_for_pieces() const {
  const RunLists& lists = parts_.runs.lists();
  return parts_.budget.has_room_for(Reach::longest_piece) || lists.cached.size() + lists.loaded.size() > 1;
}

// Pages of run n are in use, and beside it are compressed runs, of which none can be tried: it is one of the
// few of its block that show how many are.
bool Faults::stands_for_compressed(std::uint32_t n) const {
  const RunTable& runs = parts_.runs;
  const auto is_compressed = [&](std::uint32_t m) {
    return m < runs.size() && runs[m].block == runs[n].block && runs[m].has_slot &&
           runs[m].slot_bytes != run_bytes;
  };
  return !runs[n].dense && (is_compressed(n + 1) || (n > 0 && is_compressed(n - 1)));
}

// Run n would come as a whole.
bool Faults::is_tried(std::uint32_t n) {
  Run& r = parts_.runs[n];
  const bool has_room = has_room_for_pieces();
  const bool is_compressed = r.has_slot && r.slot_bytes != run_bytes;  // comes as a whole only
  if (trial_.is_of(n) && has_room) return true;
  if (trial_.is_of(n)) end_trial();
  const bool is_recalled = r.frame != none && !r.from_read;  // it is told when, and whether it is to stay
  const bool may_be = r.scattered ? stands_for_compressed(n) : !is_recalled;
  if (!has_room || !may_be || is_compressed) return false;
  if (!trial_.begin(n, r.block, parts_.runs.arrivals(), r.dense, r.scattered)) return false;
  if (!r.scattered) parts_.policy.on_use(n, r.frame == none);  // what follows it is expected all the same
  r.scattered = true;
  return true;
}

// Run n of a small block has been touched often enough to come as a whole, if that is worth it.
bool Faults::is_tried_though_cheap(std::uint32_t n) {
  const Run& r = parts_.runs[n];
  if (trial_.is_of(n) && has_room_for_pieces()) return true;
  if (trial_.is_of(n)) end_trial();
  const bool is_compressed = r.has_slot && r.slot_bytes != run_bytes;
  const bool came_in_pages = r.scattered && r.block != 0;  // else one that is huge would be split for nothing
  const bool may_be = came_in_pages && parts_.blocks.is_small(r.block, parts_.budget.pages());
  if (!may_be || is_compressed || !reach_.comes_whole_if_cheap(r.trace) || !has_room_for_pieces())
    return false;
  return trial_.begin(n, r.block, parts_.runs.arrivals(), r.dense, false);
}

// Of a run on trial it is to be seen what its touches alone bring.
void Faults::note_lone_touch(std::uint32_t n, bool is_expected) {
  Run& r = parts_.runs[n];
  whole_runs_.touched(r.lone, parts_.budget.runs() / 4 * 3);
  if (!is_expected && !trial_.is_of(n)) WholeRuns::touched_alone(r.lone);
}

PageRange Faults::reach_of(std::uint32_t n, std::uint32_t page) {
  Run& r = parts_.runs[n];
  if (parts_.standing.kernel_swaps)
    return parts_.runs.pages(n).away().has(page) ? whole_run : PageRange{page, page + 1};
  const bool is_cheap_run = !is_tried_though_cheap(n) && is_cheap(n);
  const bool is_whole_cheap = is_cheap_run && comes_whole_again(n);
  const bool streams = is_whole_cheap || (is_used_whole(n, page) && (is_cheap_run || !is_tried(n)));
  const bool pays = WholeRuns::pays(r.lone) && !trial_.is_of(n);
  const std::uint32_t there = parts_.runs.pages(n).in_place.count();
  const PageRange range = reach_.of(r.trace, page, streams || pays, there, is_cheap_run);
  const bool is_whole = range.count() == pages_per_run;
  if (r.block != 0 && (is_whole || range.count() == 1)) parts_.blocks[r.block].touched(is_whole);
  if (r.block != 0 && is_whole && !streams && !pays) parts_.blocks[r.block].use.streamed_by_touches();
  return range;
}

void Faults::note_touch_of_trial(std::uint32_t n) {
  if (!trial_.is_of(n)) return;
  if (trial_.is_void(parts_.runs[n].left, parts_.runs.arrivals())) return static_cast<void>(end_trial());
  trial_.note_touch(parts_.runs.arrivals());
}

// In the kernel's turn its run came as a whole, whatever was used of it.
void Faults::look_at_trial() {
  const std::uint32_t now = parts_.runs.arrivals();
  if (!trial_.is_due(now)) return;
  const std::uint32_t n = trial_.run();
  const Trial::Finding finding =
      trial_.finding(parts_.runs.pages(n).in_place.count(), parts_.runs[n].left, now);
  const std::uint32_t block = end_trial();
  if (block == 0 || finding == Trial::Finding::unclear || parts_.standing.kernel_swaps) return;
  const bool is_small = parts_.blocks.is_small(block, parts_.budget.pages());
  (is_small ? small_blocks_ : parts_.blocks[block].use).tried(finding == Trial::Finding::sparse);
}

// The run is like any other again. Its block; 0: that is gone.
std::uint32_t Faults::end_trial() {
  Run& r = parts_.runs[trial_.run()];
  const bool is_still_there = r.block == trial_.block();
  if (is_still_there) r.scattered = trial_.was_scattered();
  trial_.end(parts_.runs.arrivals());
  return is_still_there ? r.block : 0;
}

// Fresh memory is written as a whole, as a rule, and then is best one huge page. A very large block that is
// touched here and there is not: that shows where neither neighbour of the run has been touched. What left as
// zeroes is not fresh.
void Faults::bring_fresh(std::uint32_t n, std::uint32_t page) {
  constexpr std::uint32_t very_large = 64 * granules_per_run;
  const RunTable& runs = parts_.runs;
  const std::uint32_t block = runs[n].block;
  const bool is_in_the_open = block != 0 && parts_.blocks[block].granules >= very_large && page != 0 &&
                              n > 0 && n + 1 < runs.size() && runs[n - 1].state == RunState::empty &&
                              runs[n + 1].state == RunState::empty;
  const PageRange range = is_in_the_open || runs[n].left_empty ? reach_of(n, page) : whole_run;
  if (range.count() < pages_per_run) return parts_.placement.show_zeroes(n, range);
  if (parts_.placement.back(n)) back_ahead(n);
}

void Faults::bring_from_frame(std::uint32_t n, std::uint32_t page, bool is_strided) {
  Run& r = parts_.runs[n];
  const Pages& p = parts_.runs.pages(n);
  if (r.stuck) return;
  const TierOperation* const write = r.in_flight ? parts_.operations.of_run(n) : nullptr;
  const bool is_compressed =
      (r.has_slot && r.slot_bytes != run_bytes) || (write != nullptr && write->buffer != RunCodec::no_buffer);
  // All of it moves at once, where nothing has shown yet that only pages of it are used.
  const PageRange reach = reach_of(n, page);
  const bool is_used_in_pages =
      r.scattered || parts_.blocks.is_scattered(r.block) || parts_.blocks.is_sparse(r.block);
  const bool can_move_at_once = !is_used_in_pages && p.in_place.is_empty() && p.in_frame.is_all();
  const bool is_whole = is_compressed || (can_move_at_once && (is_cheap(n) || !is_tried(n)));
  const PageRange range = is_whole ? whole_run : is_strided ? PageRange{page, page + 1} : reach;
  if (range.count() < pages_per_run) {
    r.scattered = true;
    parts_.accounts.counts.prefetch_hits += r.state == RunState::cached ? 1 : 0;
    parts_.placement.put_back_pages(n, range);
    return;
  }
  bring_all_from_frame(n);
}

void Faults::bring_all_from_frame(std::uint32_t n) {
  const bool was_read = parts_.runs[n].from_read;
  WholeRuns::comes_whole(parts_.runs[n].lone);
  switch (parts_.runs[n].state) {
    case RunState::staged:
      parts_.policy.on_recall(n);
      parts_.placement.unstage(n);
      break;
    case RunState::writing:
      parts_.policy.on_recall(n);
      parts_.placement.rescue(n);
      break;
    case RunState::cached:
      ++parts_.accounts.counts.prefetch_hits;
      if (!was_read) parts_.policy.on_recall(n);
      parts_.placement.restore(n);
      if (was_read) parts_.policy.on_use(n, false);
      parts_.placement.restore_neighbours(n);
      break;
    default:
      break;
  }
}

void Faults::bring_from_tier(std::uint32_t n, std::uint32_t page, bool is_strided) {
  Run& r = parts_.runs[n];
  if (r.state == RunState::reading || r.queued || parts_.operations.brings(r, n, page)) return;
  const bool is_compressed = r.slot_bytes != run_bytes;
  // Compressed bytes come back as a whole only, into a frame of their own. The end of a write asks again.
  if (is_compressed && r.in_flight) return;
  if (is_compressed && r.frame != none) {
    if (!parts_.placement.put_back(n) || parts_.runs.pages(n).in_place.has(page)) return;
    r.waiting = true;
  }
  const PageRange reach = is_strided ? PageRange{page, page + 1} : reach_of(n, page);
  const PageRange range = is_compressed ? whole_run : reach;
  if (range.count() == pages_per_run && r.frame == none && r.pieces == 0) {
    WholeRuns::comes_whole(r.lone);
    parts_.line.join(n);
    if (is_compressed) parts_.frame_returns.came(reach.count() == 1 && !is_strided);
    if (reach.count() < pages_per_run) return;  // nothing says that more of the block is wanted
    return parts_.policy.on_use(n, true);
  }
  r.scattered = true;
  // The rest of a run of which pieces are still to come, or others in a frame: a longer piece.
  const PageRange piece{range.count() == pages_per_run ? page : range.first,
                        std::min({range.end, pages_per_run, page + Reach::longest_piece})};
  parts_.transfers.start_piece(n, piece, true);
}

void Faults::bring_strides(std::uint32_t n, const Strides::Ahead& ahead) {
  const std::uint32_t block = parts_.runs[n].block;
  if (block == 0) return;
  for (std::uint32_t row = 0; row < ahead.count; ++row) {
    const std::uint64_t begin = ahead.first + static_cast<std::uint64_t>(ahead.stride) * row;
    const std::uint64_t end = begin + ahead.length;
    for (std::uint64_t at = begin; at < end; at = (at / os::page_bytes + 1) * os::page_bytes) {
      const std::uint64_t run = at / run_bytes;
      if (run >= parts_.runs.size() || parts_.runs[static_cast<std::uint32_t>(run)].block != block) return;
      const auto page = static_cast<std::uint32_t>(at % run_bytes / os::page_bytes);
      if (!bring_stride(static_cast<std::uint32_t>(run), page)) return;
    }
  }
}

// A page that is likely to be touched. False: no more can come now.
bool Faults::bring_stride(std::uint32_t n, std::uint32_t page) {
  Run& r = parts_.runs[n];
  const Pages& p = parts_.runs.pages(n);
  const bool is_compressed = r.has_slot && r.slot_bytes != run_bytes;
  const bool comes_whole = r.dense && !parts_.blocks.is_sparse(r.block);
  if (r.queued || r.stuck || r.probed || comes_whole || is_compressed || p.in_place.has(page)) return true;
  if (p.in_frame.has(page)) {
    if (r.state == RunState::reading || r.in_flight) return true;
    r.scattered = true;
    parts_.placement.put_back_pages(n, {page, page + 1});
    return true;
  }
  const bool can = (r.state == RunState::stored || r.state == RunState::resident) && p.stored.has(page);
  if (!can || parts_.operations.brings(r, n, page)) return true;
  if (parts_.operations.pieces() + pieces_for_touches >= OperationTable::most_pieces) return false;
  r.scattered = true;
  parts_.transfers.start_piece(n, {page, page + 1}, false);
  return true;
}

// A new block is written from its beginning to its end: after the first runs the rest is backed ahead.
void Faults::back_ahead(std::uint32_t n) {
  constexpr std::uint32_t most_ahead = 8;
  const RunTable& runs = parts_.runs;
  const std::uint32_t block = runs[n].block;
  if (block == 0 || n == 0 || runs[n - 1].block != block || runs[n - 1].state != RunState::resident) return;
  for (std::uint32_t next = n + 1; next <= n + most_ahead && next < runs.size(); ++next) {
    if (runs[next].block != block || runs[next].state != RunState::empty) return;
    const bool is_cheap = parts_.staging.free_frames() > 0 || !runs.lists().recycled.is_empty() ||
                          parts_.budget.allowed_runs() > 0;
    if (!is_cheap) return;
    if (!parts_.placement.back(next)) return;
  }
}

// ---- the line ---------------------------------------------------------------------------------------------

bool Faults::serve_line() {
  bool reads = false;
  for (std::uint32_t refused = 0; parts_.line.size() > refused;) {
    const std::uint32_t n = parts_.line.front();
    const Run& r = parts_.runs[n];
    if (r.stuck) {
      refused += serve_stuck(n) ? 0 : 1;
      continue;
    }
    if (r.state == RunState::empty && r.waiting) {
      if (!parts_.frames.can_take()) return reads;
      parts_.line.pop();
      parts_.placement.back(n) ? back_ahead(n) : static_cast<void>(++refused);
      continue;
    }
    const bool may_be_away = r.state == RunState::stored || r.state == RunState::resident;
    const bool is_read = may_be_away && !parts_.runs.pages(n).away().is_empty();
    if (is_read && !parts_.transfers.start_read(n, true)) return reads;
    reads |= is_read;
    parts_.line.pop();
    // It is not what it was when it came into the line: who waits for some page of it asks again.
    if (!is_read && r.live > 0) mover_->wake(parts_.runs.address(n), run_bytes);
  }
  return reads;
}

bool Faults::serve_stuck(std::uint32_t n) {
  parts_.line.pop();
  if (parts_.placement.may_retry_stuck()) return parts_.placement.unstage(n);
  parts_.line.join(n);
  return false;
}

}  // namespace terrace::liballoc
