#include "liballoc/paging/transfers/transfers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

// Pages between those that must be written that are written rather than begun anew for.
constexpr std::uint32_t most_gap = 2;

PageSet without_gaps(const PageSet& needed, const PageSet& there) {
  PageSet all = needed;
  PageRange before = needed.next(0);
  for (PageRange range = needed.next(before.end); range.count() > 0; range = needed.next(range.end)) {
    const PageRange gap{before.end, range.first};
    if (gap.count() <= most_gap && (PageSet::of(gap) - there).is_empty()) all.add(gap);
    before = range;
  }
  return all;
}

// What lies between pages that are read is read, too, where that takes no longer than to begin anew.
PageSet with_short_gaps(const PageSet& pages) {
  constexpr std::uint32_t longest = 16;
  PageSet all = pages;
  PageRange before = pages.next(0);
  for (PageRange range = pages.next(before.end); range.count() > 0; range = pages.next(range.end)) {
    if (range.first - before.end <= longest) all.add({before.end, range.first});
    before = range;
  }
  return all;
}

}  // namespace

// ---- out --------------------------------------------------------------------------------------------------

bool Transfers::start_write() {
  const RunList& staged = parts_.runs.lists().staged;
  if (staged.is_empty() || parts_.operations.writes() >= writes_in_flight) return false;
  if (!may_sum_one_more()) return false;
  const std::uint32_t n = staged.front();
  Run& r = parts_.runs[n];
  if (r.in_flight) {  // an earlier write of it has not ended
    parts_.runs.spare(n);
    return false;
  }
  TierOperation* op = parts_.operations.begin(TierOperation::Kind::write, n);
  if (op == nullptr) return false;
  op->frame = r.frame;
  op->data = parts_.frames.address(r.frame);
  op->pages = parts_.runs.pages(n).in_frame;
  parts_.runs.become(n, RunState::writing);
  r.in_flight = true;
  return sum(op, op->pages);
}

// Into the extent that the run has, or into a new one. False: not now.
bool Transfers::write_into(TierOperation* op) {
  Run& r = parts_.runs[op->run];
  Pages& p = parts_.runs.pages(op->run);
  const bool is_raw = op->buffer == RunCodec::no_buffer;
  const bool stays = is_raw && parts_.extents.has_own(r);
  if (stays) {
    op->pages = without_gaps(op->dirty & p.in_frame, p.in_frame);
    op->slot_offset = r.slot_offset;
    op->slot_epoch = r.slot_epoch;
    op->slot_bytes = run_bytes;
    advance(op);
    return true;
  }
  if (!p.away().is_empty()) return start_fill(op);
  if (is_raw) {
    op->slot_bytes = run_bytes;
    // A compressed run has all pages, though some may have come back meanwhile.
    op->pages = without_gaps(p.in_frame - op->zeroes, p.in_frame);
  }
  if (!reserve_for(op)) return false;
  // What is written now is all that the run has, but for what came back meanwhile.
  p.stored = PageSet{};
  parts_.extents.release(r);
  op->owns_slot = true;
  advance(op);
  return true;
}

// The write cannot begin now: the run stays staged.
bool Transfers::refuse(TierOperation* op) {
  parts_.codec.give_back(op->buffer);
  parts_.operations.end(*op);
  parts_.runs[op->run].in_flight = false;
  parts_.runs.become(op->run, RunState::staged);
  return false;
}

// Finds a place for what is to be written. False: there is none, and what was to leave stays in DRAM.
bool Transfers::reserve_for(TierOperation* op) {
  tiers::Extent extent;
  bool by_share = false;
  const int error = parts_.extents.reserve(op->slot_bytes, &extent, &by_share);
  if (error == 0) {
    op->slot_offset = extent.offset;
    op->slot_epoch = parts_.extents.forks().epoch();
    return true;
  }
  refuse(op);
  const RunList& staged = parts_.runs.lists().staged;
  while (!staged.is_empty() && parts_.placement.unstage(staged.front())) continue;
  parts_.extents.note_full(error, by_share);
  return false;
}

// The run must move to another extent, and only the old one has some of its pages.
bool Transfers::start_fill(TierOperation* op) {
  const std::uint32_t frame = parts_.frames.take(true);
  if (frame == none) return refuse(op);
  const Run& r = parts_.runs[op->run];
  parts_.codec.give_back(op->buffer);
  op->buffer = RunCodec::no_buffer;
  op->kind = TierOperation::Kind::fill;
  op->frame = frame;
  op->owns_frame = true;
  op->data = parts_.frames.address(frame);
  op->slot_offset = r.slot_offset;
  op->slot_bytes = r.slot_bytes;
  op->sum = r.sum;
  op->generation = r.generation;
  op->pages = parts_.runs.pages(op->run).away();
  advance(op);
  return true;
}

// ---- in ---------------------------------------------------------------------------------------------------

// What was one huge page is one again, with the zeroes that were not written.
bool Transfers::comes_whole(std::uint32_t n) const {
  const Run& r = parts_.runs[n];
  return r.state == RunState::stored && r.slot_bytes == run_bytes && !r.small && !r.scattered;
}

bool Transfers::start_read(std::uint32_t n, bool demanded) {
  Run& r = parts_.runs[n];
  const bool can =
      (r.state == RunState::stored || r.state == RunState::resident) && r.pieces == 0 && !r.in_flight;
  if (!can ||
      parts_.operations.reads_in_device() >= (demanded ? reads_in_flight : parts_.operations.read_depth()))
    return false;
  const std::uint32_t frame = parts_.frames.take(demanded || parts_.policy.reads_over_cached());
  if (frame == none) return false;
  TierOperation* op = parts_.operations.begin(TierOperation::Kind::read, n);
  if (op == nullptr) {
    parts_.frames.release(frame);
    return false;
  }
  op->frame = frame;
  op->slot_offset = r.slot_offset;
  op->slot_epoch = r.slot_epoch;
  op->slot_bytes = r.slot_bytes;
  op->data = parts_.frames.address(frame);
  op->sum = r.sum;
  op->generation = r.generation;
  op->pages = with_short_gaps(parts_.runs.pages(n).away());
  op->fills_up = comes_whole(n);
  if (!demanded && op->is_compressed()) parts_.frame_returns.came(false);
  parts_.runs.become(n, RunState::reading);
  r.frame = frame;
  advance(op);
  return true;
}

void Transfers::start_piece(std::uint32_t n, PageRange wanted, bool demanded) {
  Run& r = parts_.runs[n];
  const PageSet away = PageSet::of(wanted) & parts_.runs.pages(n).away();
  const PageRange range = parts_.operations.not_brought(n, away).next(0);
  if (range.count() == 0) return;
  TierOperation* op = parts_.operations.begin(TierOperation::Kind::piece, n);
  if (op == nullptr) return mover_->wake(parts_.runs.address(n), run_bytes);  // who waits asks again
  op->slot_offset = r.slot_offset;
  op->slot_bytes = run_bytes;
  op->pages.add(range);
  op->data = parts_.operations.buffer_of(*op) - range.offset();
  op->wait_since_ns = demanded ? os::now_ns() : 0;
  ++r.pieces;
  advance(op);
}

// ---- both -------------------------------------------------------------------------------------------------

// Submits what is left of the operation, as far as the tier takes it.
void Transfers::advance(TierOperation* op) {
  if (op->submitted_ns == 0) op->submitted_ns = os::now_ns();
  const bool is_compressed = op->is_compressed();
  tiers::Tier& tier = parts_.extents.tier();
  while (op->error == 0 && op->cursor < pages_per_run) {
    const PageRange range = is_compressed ? whole_run : op->pages.next(op->cursor);
    if (range.count() == 0) {
      op->cursor = pages_per_run;
      break;
    }
    std::byte* const frame_place =
        is_compressed && !op->is_write() ? RunFrame::place(op->data, op->slot_bytes) : op->data;
    const tiers::Transfer transfer{
        .direction = op->is_write() ? tiers::Direction::write : tiers::Direction::read,
        .extent = {op->slot_offset + (is_compressed ? 0 : range.offset()),
                   is_compressed ? op->slot_bytes : range.bytes()},
        .buffer = frame_place + (is_compressed ? 0 : range.offset()),
        .token = parts_.operations.token_of(*op),
    };
    const std::uint64_t began_ns = os::now_ns();
    const int error = tier.submit(transfer);
    op->in_submit_ns += os::now_ns() - began_ns;
    if (error == EAGAIN && tier.in_flight() > 0) {
      some_are_stalled_ = true;
      return;
    }
    op->cursor = range.end;
    op->bytes += static_cast<std::uint32_t>(transfer.extent.bytes);
    if (error != 0) op->error = error;
    if (error == 0) ++op->parts;
  }
  if (op->parts == 0) finish(op);
}

void Transfers::handle_completions(bool reads_on) {
  take_results();
  if (some_are_starved_) go_on_with(true);  // once: what makes room comes after us
  tiers::Completion done[OperationTable::most];
  // Again: what finish() submits may be over at once, and then nobody calls us for it.
  while (const std::size_t count = parts_.extents.tier().poll(done)) {
    for (std::size_t i = 0; i < count; ++i) {
      TierOperation* op = &parts_.operations.of_token(done[i].token);
      if (done[i].error != 0 && op->error == 0) op->error = done[i].error;
      if (--op->parts == 0 && (op->error != 0 || op->cursor >= pages_per_run)) finish(op);
    }
    if (some_are_stalled_) go_on_with(false);
    while (reads_on && parts_.policy.reads_over_cached() && read_ahead_one()) continue;
    check_arrived();
  }
  check_arrived();
  if (some_lack_room_) put_what_lacked_room();
}

// Those that wait for the tier, or those that wait for memory.
void Transfers::go_on_with(bool starved) {
  (starved ? some_are_starved_ : some_are_stalled_) = false;
  for (TierOperation& op : parts_.operations.all()) {
    if (!op.busy || op.submitted_ns == 0 || op.error != 0 || op.starved != starved) continue;
    if (op.cursor >= pages_per_run) continue;
    op.starved = false;
    advance(&op);
  }
}

bool Transfers::are_none() const {
  const OperationTable& operations = parts_.operations;
  return operations.writes() == 0 && operations.reads() == 0 && operations.pieces() == 0;
}

void Transfers::start_anew() {
  parts_.operations.forget_all();
  some_are_stalled_ = some_are_starved_ = some_lack_room_ = false;
  next_write_ns_ = 0;
}

// Devices and paths do fail once; the second answer of a read counts.
bool Transfers::read_again(TierOperation* op) {
  if (op->retried || op->run == none) return false;
  op->retried = true;
  parts_.operations.begin_anew(*op);
  advance(op);
  return true;
}

// At its limit a job has no memory for the kernel's own part of a transfer. That is no fault of the tier: the
// read is tried until there is.
bool Transfers::read_later(TierOperation* op) {
  if (op->error != ENOMEM || op->run == none) return false;
  parts_.operations.begin_anew(*op);
  op->starved = some_are_starved_ = true;
  return true;
}

// The tier has done its part.
void Transfers::finish(TierOperation* op) {
  if (op->error == 0) times_.note_done(*op);
  if (op->is_write()) return finish_write(op);
  if (read_later(op)) return;
  if (op->run == none || op->error != 0) return end_read(op, false);
  if (op->is_piece()) return end_read(op, parts_.runs.sums().is_intact(op->run, op->data, op->pages));
  if (!op->has_arrived || parts_.runs[op->run].waiting) check(op);
}

// Before what arrived is checked, so that the device is not idle meanwhile.
bool Transfers::read_ahead_one() {
  if (!parts_.policy.wants_read_ahead()) return false;
  const std::uint32_t n = parts_.policy.next_read();
  return n != none && start_read(n, false);
}

bool Transfers::fetch_kept_ahead() {
  const std::uint32_t n = parts_.policy.next_kept();
  return n != none && start_read(n, false);
}

void Transfers::check_arrived() {
  if (parts_.operations.reads_in_device() == parts_.operations.reads()) return;
  for (TierOperation& op : parts_.operations.all()) {
    if (!op.busy || !op.has_arrived || op.is_computed) continue;
    op.run == none ? end_read(&op, false) : check(&op);
  }
}

// Nobody wants the result any more, or it has been taken.
void Transfers::tidy(TierOperation* op) {
  if (op->owns_frame) parts_.frames.release(op->frame);
  parts_.codec.give_back(op->buffer);
  parts_.operations.end(*op);
  if (op->releases_slot || parts_.operations.ends_extent(*op))
    parts_.extents.release({op->slot_offset, op->slot_bytes}, op->slot_epoch);
}

// ---- ends -------------------------------------------------------------------------------------------------

void Transfers::finish_write(TierOperation* op) {
  if (op->run == none) return tidy(op);
  if (op->error != 0) return write_failed(op);
  const std::uint32_t n = op->run;
  Run& r = parts_.runs[n];
  r.in_flight = false;
  if (op->owns_slot) {
    r.slot_offset = op->slot_offset;
    r.slot_bytes = op->slot_bytes;
    r.slot_epoch = op->slot_epoch;
    r.sum = op->sum;
    r.generation = op->generation;
    r.has_slot = true;
  }
  parts_.runs.pages(n).stored |= op->pages;
  const std::uint32_t bytes = op->bytes;
  const tiers::Medium medium = parts_.extents.medium_of(op->slot_offset);
  parts_.accounts.note_written(medium, bytes);
  // A frame beside a copy in DRAM is memory for nothing: it comes back as fast as it was made.
  if (medium == tiers::Medium::dram && r.state == RunState::writing) r.page_out = true;
  tidy(op);
  parts_.extents.note_write_done();
  parts_.accounts.tell(wire::EventKind::write_done, n, bytes);
  if (r.state == RunState::writing) return parts_.placement.end_leaving(n, parts_.standing.evicts());
  mover_->wake(parts_.runs.address(n), run_bytes);  // who waited for its end asks again
}

// The chain passes over NVM from now on: the run stays on its way and is written anew, to the next tier. One
// that is wanted meanwhile comes back.
void Transfers::nvm_failed(TierOperation* op) {
  const std::uint32_t n = op->run;
  const int error = op->error;
  Run& r = parts_.runs[n];
  r.in_flight = false;
  op->releases_slot = op->owns_slot;
  tidy(op);
  ++parts_.accounts.counts.io_errors;
  parts_.accounts.tell(wire::EventKind::io_error, n, run_bytes);
  parts_.extents.note_nvm_error(error);
  if (r.state != RunState::writing) return mover_->wake(parts_.runs.address(n), run_bytes);
  parts_.runs.become(n, RunState::staged);
  if (!r.waiting && parts_.standing.evicts()) return;
  parts_.placement.unstage(n);
  mover_->wake(parts_.runs.address(n), run_bytes);
}

void Transfers::write_failed(TierOperation* op) {
  if (parts_.extents.is_passed_over(op->slot_offset)) return nvm_failed(op);
  const std::uint32_t n = op->run;
  Run& r = parts_.runs[n];
  r.in_flight = false;
  op->releases_slot = op->owns_slot;
  const int error = op->error;
  const std::uint64_t offset = op->slot_offset;
  tidy(op);
  if (r.state == RunState::writing) {
    parts_.runs.become(n, RunState::staged);
    parts_.placement.unstage(n);
  }
  if (error == EDQUOT && parts_.extents.are_writes_leased()) return parts_.extents.note_lease_spent();
  ++parts_.accounts.counts.io_errors;
  parts_.accounts.tell(wire::EventKind::io_error, n, run_bytes);
  parts_.extents.note_write_error(error, offset);
}

// What the old extent alone had joins what is in the frame. False: not all of it.
bool Transfers::fill_frame(const TierOperation& op) {
  const Run& r = parts_.runs[op.run];
  Pages& p = parts_.runs.pages(op.run);
  bool done = true;
  const PageSet came = op.pages & p.away();
  for (PageRange range = came.next(0); range.count() > 0 && done; range = came.next(range.end)) {
    std::byte* const to = parts_.frames.address(r.frame) + range.offset();
    std::size_t bytes = range.bytes();
    if (mover_->kind() == MoverKind::move)
      done = mover_->put_pages(op.data + range.offset(), to, range.bytes(), &bytes) == 0;
    else
      std::memcpy(to, op.data + range.offset(), bytes);
    if (done) p.in_frame.add(range);
  }
  const std::uint32_t before = parts_.staging.memory_of(r.frame);
  const std::uint32_t now = std::max(p.in_frame.count(), before);
  parts_.budget.gain(now - before);
  parts_.staging.note_memory(r.frame, now, true);
  return done;
}

void Transfers::finish_fill(TierOperation* op, bool intact) {
  if (op->run == none) return tidy(op);
  const std::uint32_t n = op->run;
  const Run& r = parts_.runs[n];
  parts_.runs[n].in_flight = false;
  if (!intact) {
    tidy(op);
    return parts_.placement.lose(n, "its checksum is wrong", EIO);
  }
  const bool done = fill_frame(*op);
  tidy(op);
  parts_.runs.become(n, RunState::staged);
  if (!r.waiting && done) return;
  parts_.placement.unstage(n);
  mover_->wake(parts_.runs.address(n), run_bytes);
}

void Transfers::finish_read(TierOperation* op, bool intact) {
  if (op->run == none) return tidy(op);
  const std::uint32_t n = op->run;
  Run& r = parts_.runs[n];
  const int error = op->error;
  parts_.operations.end(*op);
  if (!intact)
    return parts_.placement.lose(n, error == 0 ? "its checksum is wrong" : "it cannot be read back",
                                 error == 0 ? EIO : error);
  Pages& p = parts_.runs.pages(n);
  p.in_frame = p.stored - p.in_place;
  if (!op->is_compressed()) p.in_frame &= op->pages;
  if (op->fills_up) fill_up(n);
  const bool lacks_zeroes = !p.nowhere().is_empty();
  parts_.accounts.note_read(parts_.extents.medium_of(op->slot_offset), op->bytes,
                            parts_.policy.leaves_last(n));
  r.from_read = true;
  r.late = false;
  parts_.runs.become(n, RunState::cached);
  parts_.accounts.tell(wire::EventKind::read_done, n, op->bytes);
  if (p.in_frame.is_empty()) return parts_.frames.reclaim(n);
  if (!r.waiting) return;
  parts_.placement.restore(n);
  if (lacks_zeroes) mover_->wake(parts_.runs.address(n), run_bytes);  // who waits for them asks again
  parts_.placement.restore_neighbours(n);
}

void Transfers::fill_up(std::uint32_t n) {
  Pages& p = parts_.runs.pages(n);
  const PageSet zeroes = p.nowhere();
  std::byte* const frame = parts_.frames.address(parts_.runs[n].frame);
  for (PageRange range = zeroes.next(0); range.count() > 0; range = zeroes.next(range.end))
    std::memset(frame + range.offset(), 0, range.bytes());
  p.in_frame |= zeroes;
}

// All memory is in use, and some of it is being written: a piece waits until that may be given up. Where
// nothing is, it goes over the budget for a moment.
bool Transfers::put_later(TierOperation* op, PageRange range) {
  if (parts_.operations.writes() == 0 || parts_.frames.make_room(range.count())) return false;
  op->lacks_room = some_lack_room_ = true;
  return true;
}

void Transfers::put_what_lacked_room() {
  some_lack_room_ = false;
  for (TierOperation& op : parts_.operations.all()) {
    if (!op.busy || !op.lacks_room) continue;
    op.lacks_room = false;
    finish_piece(&op, true);
  }
}

void Transfers::finish_piece(TierOperation* op, bool intact) {
  if (op->run == none) return tidy(op);
  const std::uint32_t n = op->run;
  const PageRange range = (op->pages & parts_.runs.pages(n).stored).next(0);
  if (intact && put_later(op, range)) return;
  parts_.operations.end(*op);
  --parts_.runs[n].pieces;
  if (!intact)
    return parts_.placement.lose(n, op->error != 0 ? "it cannot be read back" : "its checksum is wrong",
                                 op->error != 0 ? op->error : EIO);
  parts_.accounts.note_read(parts_.extents.medium_of(op->slot_offset), range.bytes(),
                            parts_.policy.leaves_last(n));
  parts_.placement.put_piece(n, range, op->data + range.offset());
  if (op->wait_since_ns != 0) parts_.accounts.note_wait(op->wait_since_ns, os::now_ns());
}

}  // namespace terrace::liballoc
