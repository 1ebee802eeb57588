// What a touch of a page sets off that is not there: the page comes from where it is, with as many around it
// as the touch lets expect (paging/reach.h).
#include <algorithm>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

void Pager::enqueue(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.queued) return;  // at most once each, so there is always room
  r.queued = true;
  pending_[(pending_head_ + pending_count_++) % run_count_] = n;
}

// A fault that would find no transfer free is left with the kernel, which keeps the order.
bool Pager::can_take_fault() const { return pieces_ < most_pieces; }

void Pager::handle_fault(const Fault& fault) {
  follow_blocks();
  const std::uint32_t n = run_of(fault.address);
  if (n >= run_count_) return;  // a frame: nobody but the agent touches those
  const auto page =
      static_cast<std::uint32_t>(static_cast<std::size_t>(fault.address - run_address(n)) / os::page_bytes);
  ++counts_.faults;
  top_run_ = std::max(top_run_, n + 1);
  Run& r = runs_[n];
  const Pages& p = pages_[n];
  if (r.state == RunState::lost) return mover_->wake(run_address(n), run_bytes);
  if (p.in_place.has(page)) return fault_in_place(n, page);
  const bool waits = p.in_frame.has(page) || p.stored.has(page) || r.state == RunState::empty;
  if (!waits) return show_zeroes(n, reach_of(n, page));
  if (!r.waiting) r.wait_since_ns = os::now_ns();
  r.waiting = true;
  tell(wire::EventKind::fault, n, run_bytes);
  if (!p.in_frame.has(page) && !p.stored.has(page)) return bring_fresh(n, page);
  const Strides::Ahead ahead = strides_.touched(static_cast<std::uint64_t>(fault.address - base_));
  const bool is_strided = ahead.count > 0;
  p.in_frame.has(page) ? bring_from_frame(n, page, is_strided) : bring_from_tier(n, page, is_strided);
  if (is_strided) bring_strides(n, ahead);
}

// It came back since the fault was raised. Else somebody took it from behind our back: a hole that the
// program made, or a loss.
void Pager::fault_in_place(std::uint32_t n, std::uint32_t page) {
  std::byte* const address = run_address(n) + std::size_t{page} * os::page_bytes;
  if (Mover::has_page(address)) return mover_->wake(address, os::page_bytes);
  if (mover_->kind() == MoverKind::mremap) runs_[n].may_have_holes = true;  // it may carry holes along
  if (miss(n, PageSet::of({page, page + 1}))) return lose(n, "a page of it has vanished", EFAULT);
  show_zeroes(n, {page, page + 1});
}

// Pages that were never written.
void Pager::show_zeroes(std::uint32_t n, PageRange range) {
  Pages& p = pages_[n];
  const PageSet wanted = PageSet::of(range) - p.in_place - p.in_frame - p.stored;
  make_room(wanted.count());
  for (PageRange part = wanted.next(0); part.count() > 0; part = wanted.next(part.end))
    mover_->zero_pages(run_address(n) + part.offset(), part.bytes());
  gain(wanted.count());
  p.in_place |= wanted;
  Run& r = runs_[n];
  if (r.state == RunState::empty || r.state == RunState::stored) {
    r.small = true;
    become(n, RunState::resident);
    ++arrivals_;
  }
  if (r.state == RunState::resident) settle(n);
}

// The run before it has just come as a whole.
bool Pager::follows(std::uint32_t n) const {
  constexpr std::uint32_t just_now = 8;
  if (n == 0 || runs_[n].block == 0 || runs_[n - 1].block != runs_[n].block) return false;
  return runs_[n - 1].state == RunState::resident && !runs_[n - 1].scattered &&
         arrivals_ - runs_[n - 1].arrival < just_now && pages_[n - 1].in_place.is_all();
}

PageRange Pager::reach_of(std::uint32_t n, std::uint32_t page) {
  Run& r = runs_[n];
  const bool begins = (page == 0 || page == r.head) && !is_scattered_block(r.block);
  const bool streams = begins || follows(n);
  const PageRange range = reach_.of(r.trace, page, streams, pages_[n].in_place.count());
  if (r.block != 0 && (streams || range.count() == 1)) blocks_[r.block].touched(streams);
  return range;
}

bool Pager::is_scattered_block(std::uint32_t block) const {
  return block != 0 && blocks_[block].is_scattered();
}

// Fresh memory is written as a whole, as a rule, and then is best one huge page. A very large block that is
// touched here and there is not: that shows where neither neighbour of the run has been touched.
void Pager::bring_fresh(std::uint32_t n, std::uint32_t page) {
  constexpr std::uint32_t very_large = 64 * granules_per_run;
  const std::uint32_t block = runs_[n].block;
  const bool may_be_sparse = block != 0 && blocks_[block].granules >= very_large && page != 0 && n > 0 &&
                             n + 1 < run_count_ && runs_[n - 1].state == RunState::empty &&
                             runs_[n + 1].state == RunState::empty;
  const PageRange range = may_be_sparse ? reach_of(n, page) : whole_run;
  if (range.count() < pages_per_run) return show_zeroes(n, range);
  if (back(n)) back_ahead(n);
}

void Pager::bring_from_frame(std::uint32_t n, std::uint32_t page, bool is_strided) {
  Run& r = runs_[n];
  const Pages& p = pages_[n];
  if (r.stuck) return;
  const bool was_read = r.state == RunState::cached && r.from_read;
  const Operation* const write = r.in_flight ? operation_of(n) : nullptr;
  const bool is_compressed =
      (r.has_slot && r.slot_bytes != run_bytes) || (write != nullptr && write->buffer != RunCodec::no_buffer);
  // All of it moves at once, where nothing has shown yet that only pages of it are used.
  const PageRange reach = reach_of(n, page);
  const bool is_whole = is_compressed || (!r.scattered && !is_scattered_block(r.block) &&
                                          p.in_place.is_empty() && p.in_frame.is_all());
  const PageRange range = is_whole ? whole_run : is_strided ? PageRange{page, page + 1} : reach;
  if (range.count() < pages_per_run) {
    r.scattered = true;
    counts_.prefetch_hits += r.state == RunState::cached ? 1 : 0;
    put_back_pages(n, range);
    return;
  }
  switch (r.state) {
    case RunState::staged:
      unstage(n);
      break;
    case RunState::writing:
      rescue(n);
      break;
    case RunState::cached:
      ++counts_.prefetch_hits;
      restore_cached(n);
      if (was_read) ahead_.used(n);
      put_back_neighbours(n);
      break;
    default:
      break;
  }
}

void Pager::bring_from_tier(std::uint32_t n, std::uint32_t page, bool is_strided) {
  Run& r = runs_[n];
  if (r.state == RunState::reading || r.queued || is_on_its_way(n, page)) return;
  const bool is_compressed = r.slot_bytes != run_bytes;
  // Compressed bytes come back as a whole only, into a frame of their own. The end of a write asks again.
  if (is_compressed && r.in_flight) return;
  if (is_compressed && r.frame != none) {
    if (!put_back(n) || pages_[n].in_place.has(page)) return;
    r.waiting = true;
  }
  const PageRange reach = is_strided ? PageRange{page, page + 1} : reach_of(n, page);
  const PageRange range = is_compressed ? whole_run : reach;
  if (range.count() == pages_per_run && r.frame == none && r.pieces == 0) {
    enqueue(n);
    if (reach.count() < pages_per_run) return;  // nothing says that more of the block is wanted
    ahead_.used(n);
    cursor_block_ = r.block;
    cursor_run_ = n + 1;
    return;
  }
  r.scattered = true;
  // The rest of a run of which pieces are still to come, or others in a frame: a longer piece.
  const PageRange piece{range.count() == pages_per_run ? page : range.first,
                        std::min({range.end, pages_per_run, page + Reach::longest_piece})};
  start_piece(n, piece, true);
}

void Pager::bring_strides(std::uint32_t n, const Strides::Ahead& ahead) {
  for (std::uint32_t i = 0; i < ahead.count * ahead.width; ++i) {
    const std::uint64_t at = ahead.first + static_cast<std::uint64_t>(ahead.stride) * (i / ahead.width) +
                             std::uint64_t{i % ahead.width} * os::page_bytes;
    const std::uint64_t run = at / run_bytes;
    if (run >= run_count_ || runs_[run].block != runs_[n].block || runs_[n].block == 0) return;
    const auto page = static_cast<std::uint32_t>(at % run_bytes / os::page_bytes);
    if (!bring_stride(static_cast<std::uint32_t>(run), page)) return;
  }
}

// A page that is likely to be touched. False: no more can come now.
bool Pager::bring_stride(std::uint32_t n, std::uint32_t page) {
  Run& r = runs_[n];
  const Pages& p = pages_[n];
  const bool is_compressed = r.has_slot && r.slot_bytes != run_bytes;
  if (r.queued || r.stuck || is_compressed || p.in_place.has(page)) return true;
  if (p.in_frame.has(page)) {
    if (r.state == RunState::reading || r.in_flight) return true;
    r.scattered = true;
    put_back_pages(n, {page, page + 1});
    return true;
  }
  const bool can = (r.state == RunState::stored || r.state == RunState::resident) && p.stored.has(page);
  if (!can || is_on_its_way(n, page)) return true;
  if (pieces_ + pieces_for_touches >= most_pieces) return false;
  r.scattered = true;
  start_piece(n, {page, page + 1}, false);
  return true;
}

void Pager::restore_cached(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.from_read && r.returns < Insertion::most_returns) ++r.returns;
  const bool streams =
      r.from_read &&
      insertion_.streams(arrivals_ - r.came, budget_ - std::min(budget_, stream_window()), r.returns);
  const std::uint32_t pages = pages_[n].in_frame.count();
  if (!put_back(n)) return;
  r.heat = static_cast<std::uint8_t>(std::min<unsigned>(r.heat + 1U, most_heat));
  if (streams && r.state == RunState::resident) {
    delist(n);
    r.streamed = true;
    r.heat = 0;
    enlist(n);
  }
  ++counts_.restores;
  counts_.restored_bytes += std::uint64_t{pages} * os::page_bytes;
  tell(wire::EventKind::restore, n, run_bytes);
}

// A new block is written from its beginning to its end: after the first runs the rest is backed ahead.
void Pager::back_ahead(std::uint32_t n) {
  constexpr std::uint32_t most_ahead = 8;
  const std::uint32_t block = runs_[n].block;
  if (block == 0 || n == 0 || runs_[n - 1].block != block || runs_[n - 1].state != RunState::resident) return;
  for (std::uint32_t next = n + 1; next <= n + most_ahead && next < run_count_; ++next) {
    if (runs_[next].block != block || runs_[next].state != RunState::empty) return;
    if (staging_.free_frames() == 0 && recycled_.is_empty() && backed_runs() >= budget_) return;
    if (!back(next)) return;
  }
}

// One touch of a tensor brings back all of it that is in DRAM already.
void Pager::put_back_neighbours(std::uint32_t n) {
  constexpr std::uint32_t most_at_once = 16;
  const std::uint32_t block = runs_[n].block;
  for (std::uint32_t next = n + 1; block != 0 && next <= n + most_at_once && next < run_count_; ++next) {
    if (runs_[next].block != block || runs_[next].state != RunState::cached || runs_[next].scattered) return;
    ++counts_.prefetch_hits;
    const bool was_read = runs_[next].from_read;
    restore_cached(next);
    if (was_read) ahead_.used(next);
  }
}

}  // namespace terrace::liballoc
