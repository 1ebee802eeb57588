#include "liballoc/paging/memory/placement.h"

#include <algorithm>
#include <cstring>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t put_pause_ns = 10'000'000;

PageSet first_pages(PageRange range, std::size_t bytes) {
  return PageSet::of({range.first, range.first + static_cast<std::uint32_t>(bytes / os::page_bytes)});
}

}  // namespace

// ---- arriving ---------------------------------------------------------------------------------------------

void Placement::end_wait(std::uint32_t n) {
  Run& r = parts_.runs[n];
  if (r.waiting) parts_.accounts.note_wait(r.wait_since_ns, os::now_ns());
  r.waiting = false;
}

bool Placement::back(std::uint32_t n) {
  Run& r = parts_.runs[n];
  const std::uint32_t frame = parts_.frames.take(true);
  if (frame == none) {
    parts_.budget.note_outgrown();
    parts_.line.join(n);
    return false;
  }
  if (r.zero_fill) std::memset(parts_.frames.address(frame), 0, run_bytes);
  r.zero_fill = r.left_empty = false;
  r.frame = frame;
  parts_.runs.pages(n).in_frame = PageSet::all();
  return put_back(n);
}

bool Placement::put_back(std::uint32_t n) {
  const Run& r = parts_.runs[n];
  const Pages& p = parts_.runs.pages(n);
  if (!p.in_place.is_empty() || !p.in_frame.is_all()) return put_back_pages(n, whole_run);
  bool keeps_memory = false;
  const int error = mover_->put(parts_.frames.address(r.frame), parts_.runs.address(n), &keeps_memory);
  if (error != 0) {
    error == ENOTRECOVERABLE ? lose(n, "its pages cannot be put back", EIO) : keep_in_frame(n, error);
    return false;
  }
  arrived_whole(n, keeps_memory);
  end_wait(n);
  return true;
}

void Placement::arrived_whole(std::uint32_t n, bool keeps_memory) {
  const RunTable::Change change(parts_.runs, n);
  Run& r = parts_.runs[n];
  Pages& p = parts_.runs.pages(n);
  unstick(r);
  parts_.frames.note_gone();
  r.small = keeps_memory || parts_.staging.is_small(r.frame);
  // A copy gave the run memory of its own: the frame's goes.
  if (keeps_memory) {
    parts_.budget.gain(pages_per_run);
    parts_.budget.lose(parts_.staging.discard(r.frame));
  } else {
    parts_.staging.give_absent(r.frame);
  }
  p.in_place = p.in_frame;
  p.in_frame = PageSet{};
  parts_.runs.expect_to_leave(n);
  r.frame = none;
  r.from_read = r.page_out = r.may_have_holes = r.held = r.scattered = false;
  // What was only looked at has not been away, as the policy sees it.
  if (!r.probed) {
    r.turn = parts_.policy.leaves_last(n) ? Turn::last : Turn::usual;
    parts_.runs.note_arrival();
    r.came = parts_.runs.arrivals();
  }
  r.probed = false;
  parts_.extents.release_copy_in_dram(n);
  parts_.extents.settle(n);
  if (listener_ != nullptr) listener_->on_returned(n);
}

// From pages of it that have come back one by one. What is used all over leaves last also where it came so.
void Placement::learn_density(std::uint32_t n) {
  Run& r = parts_.runs[n];
  r.dense |= r.scattered && parts_.policy.is_dense(n);
  if (!r.dense || r.turn != Turn::usual || !parts_.policy.leaves_last(n)) return;
  const RunTable::Change change(parts_.runs, n);
  r.turn = Turn::last;
}

// Whoever waits for a page that the kernel refuses asks again.
bool Placement::put_back_pages(std::uint32_t n, PageRange range) {
  Run& r = parts_.runs[n];
  Pages& p = parts_.runs.pages(n);
  const PageSet wanted = PageSet::of(range) & p.in_frame;
  bool all = true;
  {
    const RunTable::Change change(parts_.runs, n);  // room is not to be made of its own frame
    for (PageRange part = wanted.next(0); part.count() > 0 && all; part = wanted.next(part.end)) {
      if (range.count() < pages_per_run) parts_.frames.make_room(part.count());
      std::size_t done = 0;
      all = mover_->put_pages(parts_.frames.address(r.frame) + part.offset(),
                              parts_.runs.address(n) + part.offset(), part.bytes(), &done) == 0;
      const PageSet came = first_pages(part, done);
      parts_.budget.gain((came - p.in_place).count());
      p.in_place |= came;
      p.in_frame -= came;
    }
    if (!all) mover_->wake(parts_.runs.address(n), run_bytes);
    r.small = true;
    if (p.in_frame.is_empty() && !r.in_flight) {
      unstick(r);
      parts_.frames.release(r.frame);
      r.frame = none;
      r.from_read = r.page_out = r.held = r.probed = false;
      parts_.runs.note_arrival();
      r.came = parts_.runs.arrivals();
      parts_.extents.release_copy_in_dram(n);
      parts_.extents.settle(n);
    }
  }
  learn_density(n);
  end_wait(n);
  if (listener_ != nullptr && !p.in_place.is_empty()) listener_->on_returned(n);
  return all;
}

// The kernel refused, for want of memory most likely. All bytes are in the frame, and there they wait. What
// the tier has of them is given up: the program may have changed pages that were put back for a moment.
void Placement::keep_in_frame(std::uint32_t n, int error) {
  Run& r = parts_.runs[n];
  {
    const RunTable::Change change(parts_.runs, n);
    if (r.live == 0) {  // a touch of freed memory
      parts_.frames.release(r.frame);
      parts_.runs.pages(n) = Pages{};
      r.frame = none;
    } else {
      stuck_runs_ += r.stuck ? 0 : 1;
      r.stuck = true;
      r.state = RunState::staged;
      r.from_read = r.held = r.probed = false;
      parts_.runs.pages(n).stored = PageSet{};
      if (!r.in_flight) parts_.extents.release(r);
    }
  }
  parts_.line.join(n);
  if (r.live == 0) return;
  retry_put_ns_ = os::now_ns() + put_pause_ns;
  if (stuck_told_) return;
  stuck_told_ = true;
  Message m(Severity::warning);
  m << "the kernel does not put 2 MiB back at " << static_cast<const void*>(parts_.runs.address(n)) << ", ";
  m.error(error) << "; the data stays in DRAM, Terrace tries again, and a thread that touches the data "
                    "waits; is memory left?";
}

void Placement::unstick(Run& r) {
  stuck_runs_ -= r.stuck ? 1 : 0;
  r.stuck = false;
}

bool Placement::may_retry_stuck() const { return os::now_ns() >= retry_put_ns_; }

void Placement::restore(std::uint32_t n) {
  Run& r = parts_.runs[n];
  const bool leaves_early = r.from_read && parts_.policy.on_return(n);
  const std::uint32_t pages = parts_.runs.pages(n).in_frame.count();
  if (!put_back(n)) return;
  r.heat = static_cast<std::uint8_t>(std::min<unsigned>(r.heat + 1U, most_heat));
  if (leaves_early && r.state == RunState::resident) {
    const RunTable::Change change(parts_.runs, n);
    r.turn = Turn::first;
    r.heat = 0;
  }
  ++parts_.accounts.counts.restores;
  parts_.accounts.counts.restored_bytes += std::uint64_t{pages} * os::page_bytes;
  parts_.accounts.tell(wire::EventKind::restore, n, run_bytes);
}

void Placement::restore_neighbours(std::uint32_t n) {
  constexpr std::uint32_t most_at_once = 16;
  const RunTable& runs = parts_.runs;
  const std::uint32_t block = runs[n].block;
  for (std::uint32_t next = n + 1; block != 0 && next <= n + most_at_once && next < runs.size(); ++next) {
    const Run& r = runs[next];
    if (r.block != block || r.state != RunState::cached || r.scattered) return;
    ++parts_.accounts.counts.prefetch_hits;
    const bool was_read = r.from_read;
    restore(next);
    if (was_read) parts_.policy.on_use(next, false);
  }
}

void Placement::show_zeroes(std::uint32_t n, PageRange range) {
  Pages& p = parts_.runs.pages(n);
  const PageSet wanted = PageSet::of(range) - p.in_place - p.in_frame - p.stored;
  parts_.frames.make_room(wanted.count());
  for (PageRange part = wanted.next(0); part.count() > 0; part = wanted.next(part.end))
    mover_->zero_pages(parts_.runs.address(n) + part.offset(), part.bytes());
  parts_.budget.gain(wanted.count());
  p.in_place |= wanted;
  Run& r = parts_.runs[n];
  if (r.state == RunState::empty || r.state == RunState::stored) {
    r.small = true;
    r.left_empty = false;
    parts_.runs.become(n, RunState::resident);
    parts_.runs.note_arrival();
  }
  if (r.state == RunState::resident && !r.queued) end_wait(n);  // else others wait for what is to be read
}

std::size_t Placement::put_piece(std::uint32_t n, PageRange range, const std::byte* content) {
  Run& r = parts_.runs[n];
  Pages& p = parts_.runs.pages(n);
  parts_.frames.make_room(range.count());
  std::size_t done = 0;
  if (range.count() > 0)
    mover_->put_pages(content, parts_.runs.address(n) + range.offset(), range.bytes(), &done);
  if (done < range.bytes()) mover_->wake(parts_.runs.address(n), run_bytes);  // who waits asks again
  const PageSet came = first_pages(range, done);
  parts_.budget.gain((came - p.in_place).count());
  p.in_place |= came;
  ++parts_.accounts.counts.restores;
  parts_.accounts.counts.restored_bytes += done;
  r.waiting = false;
  parts_.accounts.tell(wire::EventKind::restore, n, done);
  if (listener_ != nullptr && done > 0) listener_->on_returned(n);
  if (r.state != RunState::stored && r.state != RunState::resident) return done;
  r.small = true;
  if (r.state == RunState::stored && !p.in_place.is_empty()) {
    parts_.runs.become(n, RunState::resident);
    parts_.runs.note_arrival();
  }
  learn_density(n);
  return done;
}

// ---- leaving ----------------------------------------------------------------------------------------------

// False: nothing has left its place. The run is spared.
bool Placement::take_out(std::uint32_t n, std::uint32_t frame, PageSet* taken) {
  const Pages& p = parts_.runs.pages(n);
  *taken = PageSet::all();
  const int error =
      p.in_place.is_all()
          ? mover_->take(parts_.runs.address(n), parts_.frames.address(frame), false)
          : mover_->take_pages(parts_.runs.address(n), parts_.frames.address(frame), p.in_place, taken);
  if (error == 0) return true;
  parts_.staging.give_absent(frame);
  parts_.accounts.counts.pinned_refusals += error == EBUSY ? 1 : 0;
  parts_.runs.spare(n);
  return false;
}

bool Placement::stage(std::uint32_t n) {
  if (!leave(n, false)) return false;
  ++parts_.accounts.counts.evictions;
  parts_.accounts.counts.evicted_bytes +=
      std::uint64_t{parts_.runs.pages(n).in_frame.count()} * os::page_bytes;
  parts_.accounts.tell(wire::EventKind::evict, n, run_bytes);
  return true;
}

bool Placement::leave(std::uint32_t n, bool is_probe) {
  Run& r = parts_.runs[n];
  Pages& p = parts_.runs.pages(n);
  PageSet there;
  const bool is_busy = r.in_flight || r.pieces > 0 || r.queued;
  if (!is_busy && r.may_have_holes && mover_->present(parts_.runs.address(n), &there))
    miss(n, p.in_place - there);
  const bool is_there = is_probe ? p.in_place.is_all() : !p.in_place.is_empty();
  const bool may_leave = !is_busy && is_there && parts_.runs.may_leave(n);
  const std::uint32_t frame = may_leave ? parts_.staging.take_absent() : none;
  if (frame == none) {
    if (!is_probe) parts_.runs.spare(n);
    return false;
  }
  PageSet taken;
  if (!take_out(n, frame, &taken)) return false;
  const PageSet gone = p.in_place - taken;
  {
    const RunTable::Change change(parts_.runs, n);
    p.in_frame = taken;
    p.in_place = PageSet{};
    parts_.staging.note_memory(frame, taken.count(), r.small || !taken.is_all());
    parts_.frames.note_taken();
    r.frame = frame;
    r.probed = is_probe;
    if (!is_probe) {
      r.turn = Turn::usual;
      r.left = parts_.runs.arrivals();
    }
    r.held = r.scattered && !r.page_out && !is_probe;
    r.state = RunState::staged;
  }
  if (miss(n, gone)) {
    lose(n, "a page of it has vanished", EFAULT);
    return false;
  }
  // A thread may have freed the block just before and written to the next one there already: those bytes are
  // not what they seem. Back they go, until what happened is known.
  if (queue_->mentions(n * granules_per_run, granules_per_run)) {
    put_back(n);
    return false;
  }
  if (listener_ != nullptr) listener_->on_left(n);
  return true;
}

bool Placement::probe(std::uint32_t n) {
  const Run& r = parts_.runs[n];
  const bool may_move = r.state == RunState::resident && r.live > 0 && r.pins == 0 && !r.scattered;
  return may_move && leave(n, true);
}

bool Placement::end_probe(std::uint32_t n) { return put_back(n); }

void Placement::end_probes() {
  const RunList& probed = parts_.runs.lists().probed;
  while (!probed.is_empty() && end_probe(probed.front())) continue;
}

bool Placement::unstage(std::uint32_t n) {
  if (!put_back(n)) return false;
  ++parts_.accounts.counts.cancelled_evictions;
  parts_.accounts.tell(wire::EventKind::cancel, n, run_bytes);
  return true;
}

void Placement::unstage_all() {
  const RunLists& lists = parts_.runs.lists();
  while (!lists.staged.is_empty() && unstage(lists.staged.front())) continue;
  while (!lists.held.is_empty() && unstage(lists.held.front())) continue;
  end_probes();
}

void Placement::put_all_back() {
  unstage_all();
  const RunLists& lists = parts_.runs.lists();
  while (!lists.cached.is_empty()) restore(lists.cached.front());
  while (!lists.loaded.is_empty()) restore(lists.loaded.front());
}

void Placement::rescue(std::uint32_t n) {
  Run& r = parts_.runs[n];
  const Pages& p = parts_.runs.pages(n);
  TierOperation* const write = parts_.operations.of_run(n);
  const bool is_read_from_frame = write != nullptr && write->buffer == RunCodec::no_buffer;
  if (!is_read_from_frame || !p.in_frame.is_all() || !p.in_place.is_empty()) {
    unstage(n);
    return;
  }
  const std::uint32_t frame = parts_.frames.take(true);
  if (frame == none) return;  // the end of the write puts it back
  std::memcpy(parts_.frames.address(frame), parts_.frames.address(r.frame), run_bytes);
  write->owns_frame = true;
  r.frame = frame;
  unstage(n);
}

void Placement::end_leaving(std::uint32_t n, bool stays_out) {
  Run& r = parts_.runs[n];
  parts_.runs.become(n, RunState::cached);
  if (r.waiting || !stays_out) {
    unstage(n);
    mover_->wake(parts_.runs.address(n), run_bytes);  // who waits for another page of it asks again
  } else if (r.page_out || parts_.runs.pages(n).in_frame.is_empty()) {
    r.page_out = false;
    parts_.frames.reclaim(n);
  }
}

// ---- vanishing --------------------------------------------------------------------------------------------

bool Placement::miss(std::uint32_t n, const PageSet& gone) {
  if (gone.is_empty()) return false;
  parts_.budget.lose(gone.count());
  parts_.runs.pages(n).in_place -= gone;
  parts_.runs.pages(n).in_frame -= gone;
  return !parts_.runs[n].may_have_holes;
}

void Placement::forget(std::uint32_t n, PageRange range) {
  Run& r = parts_.runs[n];
  Pages& p = parts_.runs.pages(n);
  if (r.state == RunState::empty) r.zero_fill = true;
  if (r.state == RunState::empty || r.state == RunState::lost) return;
  const PageSet gone = PageSet::of(range);
  mover_->watch_again(parts_.runs.address(n));
  parts_.budget.lose((p.in_place & gone).count());
  p.in_place -= gone;
  p.in_frame -= gone;
  p.stored -= gone;
  parts_.operations.forget(n, gone);
  if (r.frame == none) {
    const RunTable::Change change(parts_.runs, n);
    parts_.extents.settle(n);
  } else if (p.in_frame.is_empty() && !r.in_flight && r.state != RunState::reading) {
    {
      const RunTable::Change change(parts_.runs, n);
      unstick(r);
      r.held = r.probed = false;
    }
    parts_.frames.reclaim(n);
  }
  r.waiting = false;
  mover_->wake(parts_.runs.address(n), run_bytes);  // it faults again, and finds zeroes
}

void Placement::lose(std::uint32_t n, const char* why, int error) {
  Run& r = parts_.runs[n];
  const char* place = parts_.extents.place_of(r);
  {
    const RunTable::Change change(parts_.runs, n);
    unstick(r);
    parts_.operations.let_go(r, n, false);
    if (r.frame != none) {
      parts_.budget.lose(parts_.staging.discard(r.frame));  // it may have been left in part
      parts_.frames.note_gone();
    }
    parts_.budget.lose(parts_.runs.pages(n).in_place.count());
    parts_.runs.pages(n) = Pages{};
    r.frame = none;
    // The extent is not trusted again: it stays reserved as long as the process lives, so that no other data
    // is put where some was lost. It still takes up disk, and therefore counts as used.
    r.has_slot = false;
    r.state = RunState::lost;
  }
  ++parts_.accounts.counts.lost_runs;
  parts_.accounts.tell(wire::EventKind::lost, n, run_bytes);
  parts_.accounts.report_loss(n, why, place, error);
  // Last: who waits for it meets SIGBUS from here on, which may end the process.
  mover_->poison(parts_.runs.address(n));
  end_wait(n);
}

}  // namespace terrace::liballoc
