// Transfers between memory and the tier: whole runs through their staging frame, compressed or not, and
// single pages through small buffers of their own.
//
//   write   the dirty pages of a frame, into the run's extent where it has one that no forked child reads,
//   else into
//           a new one, which gets all pages
//   fill    before that: what the old extent alone has, into the frame
//   read    what a run has on the tier only, into a frame
//   piece   a few pages, into a buffer, and from there under their address
//
// An operation is cut into as many transfers as it has stretches of pages; its end is the end of the last.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"
#include "tiers/extent_allocator.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t retry_pause_ns = 1'000'000'000;
// Clean pages between dirty ones that are written rather than begun anew for.
constexpr std::uint32_t most_gap = 2;

PageSet without_gaps(const PageSet& dirty, const PageSet& there) {
  PageSet all = dirty;
  PageRange before = dirty.next(0);
  for (PageRange range = dirty.next(before.end); range.count() > 0; range = dirty.next(range.end)) {
    const PageRange gap{before.end, range.first};
    if (gap.count() <= most_gap && (PageSet::of(gap) - there).is_empty()) all.add(gap);
    before = range;
  }
  return all;
}

PageRange hull(const PageSet& pages) {
  PageRange all = pages.next(0);
  for (PageRange range = all; range.count() > 0; range = pages.next(range.end)) all.end = range.end;
  return all;
}

}  // namespace

Pager::Operation* Pager::new_operation(Operation::Kind kind, std::uint32_t n) {
  const bool is_piece = kind == Operation::Kind::piece;
  for (std::size_t i = is_piece ? 0 : most_pieces; i < (is_piece ? most_pieces : most_operations); ++i) {
    Operation& op = operations_[i];
    if (op.busy) continue;
    op = Operation{};
    op.busy = true;
    op.kind = kind;
    op.run = n;
    return &op;
  }
  return nullptr;
}

// The first operations are for pieces, each with its buffer.
std::byte* Pager::piece_buffer(const Operation& op) {
  return piece_buffers_ + static_cast<std::size_t>(&op - operations_) * Reach::longest_piece * os::page_bytes;
}

// ---- out --------------------------------------------------------------------------------------------------

bool Pager::start_write() {
  if (staged_.is_empty() || writes_ >= writes_in_flight) return false;
  if (codec_.is_on() && !codec_.has_free_buffer()) return false;
  const std::uint32_t n = staged_.front();
  if (runs_[n].in_flight) {  // an earlier write of it has not ended
    spare(n);
    return false;
  }
  Operation* op = new_operation(Operation::Kind::write, n);
  if (op == nullptr) return false;
  Run& r = runs_[n];
  Pages& p = pages_[n];
  op->frame = r.frame;
  op->data = staging_.address(r.frame);
  const PageSet dirty = pages_.take_dirty(n, op->data, p.in_frame);
  if (dirty.is_empty()) {
    op->busy = false;
    end_leaving(n);
    return true;
  }
  become(n, RunState::writing);
  r.in_flight = true;
  ++writes_;
  return prepare_write(op, dirty);
}

// Into the extent that the run has, or into a new one. False: not now.
bool Pager::prepare_write(Operation* op, const PageSet& dirty) {
  const std::uint32_t n = op->run;
  Run& r = runs_[n];
  Pages& p = pages_[n];
  const bool is_whole = p.in_frame.is_all();
  const bool are_few = r.has_slot && r.slot_bytes == run_bytes && dirty.count() <= pages_per_run / 2;
  const bool is_scattered =
      r.scattered || is_scattered_block(r.block);  // compressed, it would come as a whole only
  if (is_whole && codec_.is_on() && !is_scattered && !are_few) encode(op, n);
  const bool stays = op->buffer == RunCodec::no_buffer && r.has_slot && r.slot_bytes == run_bytes &&
                     !forks_.is_read_by_child(r.slot_epoch);
  if (stays) {
    op->pages = without_gaps(dirty, p.in_frame);
    op->slot_offset = r.slot_offset;
    op->slot_epoch = r.slot_epoch;
    op->slot_bytes = run_bytes;
    advance(op);
    return true;
  }
  if (!p.away().is_empty()) return start_fill(op);
  if (op->buffer == RunCodec::no_buffer) op->slot_bytes = run_bytes;
  op->pages = p.in_frame;
  if (!reserve_for(op)) return false;
  // What is written now is all that the run has, but for what came back meanwhile.
  p.stored = PageSet{};
  release_slot(r);
  op->owns_slot = true;
  advance(op);
  return true;
}

void Pager::encode(Operation* op, std::uint32_t n) {
  const RunCodec::Stored stored = codec_.encode(op->data, n, ++generation_);
  codec_.publish_counts();
  op->generation = generation_;
  if (stored.buffer == RunCodec::no_buffer) return;
  op->data = const_cast<std::byte*>(stored.data);
  op->sum = stored.sum;
  op->buffer = stored.buffer;
  op->slot_bytes = stored.bytes;
}

// Finds a place for what is to be written. False: there is none.
bool Pager::reserve_for(Operation* op) {
  tiers::Extent extent;
  int error = ENOSPC;
  bool within_share = true;
  for (int attempt = 0; attempt < 2 && error == ENOSPC; ++attempt) {
    within_share = pool_used_bytes() + tiers::whole_units(op->slot_bytes) <= pool_limit_;
    error = within_share ? tier_->reserve(op->slot_bytes, &extent) : ENOSPC;
    if (error == ENOSPC && !give_up_copies()) break;
  }
  if (error == 0) {
    op->slot_offset = extent.offset;
    op->slot_epoch = forks_.epoch();
    pool_full_ = false;
    return true;
  }
  const std::uint32_t n = op->run;
  --writes_;
  codec_.give_back(op->buffer);
  op->busy = false;
  runs_[n].in_flight = false;
  become(n, RunState::staged);
  refuse_writes(error, !within_share);
  return false;
}

// The pool has no room, and some of it holds what is in DRAM as well. True: some was given up.
bool Pager::give_up_copies() {
  constexpr std::uint32_t most = 64;
  std::uint32_t given = 0;
  for (std::uint32_t n = idle_.back(), looks = 0; n != none && looks < 4096 && given < most;
       n = runs_[n].previous, ++looks) {
    Run& r = runs_[n];
    if (!r.has_slot || r.in_flight || r.pieces > 0 || !pages_[n].away().is_empty()) continue;
    pages_[n].stored = PageSet{};
    release_slot(r);
    ++given;
  }
  return given > 0;
}

// The pool has no room (or cannot grow): what was to leave stays in DRAM, and the user is told once.
void Pager::refuse_writes(int error, bool by_share) {
  while (!staged_.is_empty() && unstage(staged_.front())) continue;
  pool_full_ = true;
  retry_after_ns_ = os::now_ns() + retry_pause_ns;
  tell(wire::EventKind::pool_full, 0, pool_used_bytes());
  if (pool_full_told_) return;
  pool_full_told_ = true;
  Message m(Severity::warning);
  m << (by_share ? "the pool that this job's processes share is full, this one's part at "
                 : "the pool is full at ");
  m.bytes(pool_used_bytes()) << " (";
  m.error(error) << "): data stays in DRAM, over the budget if need be; enlarge the pool "
                    "(--pool-size, TERRACE_POOL_SIZE) or free disk";
}

// All that a staged run has in its frame is on the tier.
void Pager::end_leaving(std::uint32_t n) {
  Run& r = runs_[n];
  become(n, RunState::cached);
  if (r.waiting || !evicts_) {
    unstage(n);
    mover_->wake(run_address(n), run_bytes);  // who waits for another page of it asks again
  } else if (r.page_out || pages_[n].in_frame.is_empty()) {
    r.page_out = false;
    reclaim(n);
  }
}

// The run must move to another extent, and only the old one has some of its pages.
bool Pager::start_fill(Operation* op) {
  const std::uint32_t frame = take_frame(true);
  if (frame == none) {
    --writes_;
    codec_.give_back(op->buffer);
    op->busy = false;
    runs_[op->run].in_flight = false;
    become(op->run, RunState::staged);
    return false;
  }
  const Run& r = runs_[op->run];
  codec_.give_back(op->buffer);
  op->buffer = RunCodec::no_buffer;
  op->kind = Operation::Kind::fill;
  op->frame = frame;
  op->owns_frame = true;
  op->data = staging_.address(frame);
  op->slot_offset = r.slot_offset;
  op->slot_bytes = r.slot_bytes;
  op->sum = r.sum;
  op->generation = r.generation;
  op->pages = pages_[op->run].away();
  advance(op);
  return true;
}

void Pager::finish_fill(Operation* op, bool intact) {
  --writes_;
  if (op->run == none) return tidy(op);
  const std::uint32_t n = op->run;
  Run& r = runs_[n];
  Pages& p = pages_[n];
  r.in_flight = false;
  if (!intact) {
    tidy(op);
    return lose(n, "its checksum is wrong", EIO);
  }
  bool done = true;
  const PageSet came = op->pages & p.away();
  for (PageRange range = came.next(0); range.count() > 0 && done; range = came.next(range.end)) {
    std::byte* const to = staging_.address(r.frame) + range.offset();
    std::size_t bytes = range.bytes();
    if (mover_->kind() == MoverKind::move)
      done = mover_->put_pages(op->data + range.offset(), to, range.bytes(), &bytes) == 0;
    else
      std::memcpy(to, op->data + range.offset(), bytes);
    if (done) p.in_frame.add(range);
  }
  gain(p.in_frame.count() - std::min(p.in_frame.count(), staging_.memory_of(r.frame)));
  staging_.note_memory(r.frame, std::max(p.in_frame.count(), staging_.memory_of(r.frame)), true);
  tidy(op);
  become(n, RunState::staged);
  if (!r.waiting && done) return;
  unstage(n);
  mover_->wake(run_address(n), run_bytes);
}

// ---- in ---------------------------------------------------------------------------------------------------

// Starts to read all that run n has on the tier only. False when no frame or operation is free.
bool Pager::start_read(std::uint32_t n, bool demanded) {
  Run& r = runs_[n];
  const bool can =
      (r.state == RunState::stored || r.state == RunState::resident) && r.pieces == 0 && !r.in_flight;
  if (!can || reads_ >= (demanded ? reads_in_flight : reads_ahead)) return false;
  // What is read ahead takes memory that has been written, where the job streams: there is always more of it.
  const std::uint32_t frame = take_frame(demanded || (is_streaming() && !cached_.is_empty()));
  if (frame == none) return false;
  Operation* op = new_operation(Operation::Kind::read, n);
  if (op == nullptr) {
    release_frame(frame);
    return false;
  }
  op->frame = frame;
  op->slot_offset = r.slot_offset;
  op->slot_epoch = r.slot_epoch;
  op->slot_bytes = r.slot_bytes;
  op->data = staging_.address(frame);
  op->sum = r.sum;
  op->generation = r.generation;
  op->pages.add(hull(pages_[n].away()));
  become(n, RunState::reading);
  r.frame = frame;
  ++reads_;
  advance(op);
  return true;
}

// Whether the page of run n is being read already.
bool Pager::is_on_its_way(std::uint32_t n, std::uint32_t page) const {
  if (runs_[n].pieces == 0) return false;
  for (const Operation& op : operations_)
    if (op.busy && op.run == n && op.kind == Operation::Kind::piece && op.pages.has(page)) return true;
  return false;
}

void Pager::start_piece(std::uint32_t n, PageRange wanted, bool demanded) {
  Run& r = runs_[n];
  PageRange range = (PageSet::of(wanted) & pages_[n].away()).next(0);
  for (const Operation& op : operations_)
    if (op.busy && op.run == n && op.kind == Operation::Kind::piece)
      range = ((PageSet::of(range) & pages_[n].away()) - op.pages).next(0);
  if (range.count() == 0) return;
  Operation* op = new_operation(Operation::Kind::piece, n);
  if (op == nullptr) return mover_->wake(run_address(n), run_bytes);  // it asks again
  op->slot_offset = r.slot_offset;
  op->slot_bytes = run_bytes;
  op->pages.add(range);
  op->data = piece_buffer(*op) - range.offset();
  op->wait_since_ns = demanded ? os::now_ns() : 0;
  ++r.pieces;
  ++pieces_;
  advance(op);
}

void Pager::finish_piece(Operation* op, bool intact) {
  --pieces_;
  if (op->run == none) return tidy(op);
  op->busy = false;
  const std::uint32_t n = op->run;
  Run& r = runs_[n];
  Pages& p = pages_[n];
  --r.pieces;
  if (!intact)
    return lose(n, op->error != 0 ? "it cannot be read back" : "its checksum is wrong",
                op->error != 0 ? op->error : EIO);
  const PageRange range = (op->pages & p.stored).next(0);
  counts_.read_bytes += range.bytes();
  make_room(range.count());
  std::size_t done = 0;
  if (range.count() > 0)
    mover_->put_pages(op->data + range.offset(), run_address(n) + range.offset(), range.bytes(), &done);
  if (done < range.bytes()) mover_->wake(run_address(n), run_bytes);  // it asks again
  const PageSet came =
      PageSet::of({range.first, range.first + static_cast<std::uint32_t>(done / os::page_bytes)});
  gain((came - p.in_place).count());
  p.in_place |= came;
  ++counts_.restores;
  counts_.restored_bytes += done;
  if (op->wait_since_ns != 0) counts_.stall_ns += os::now_ns() - op->wait_since_ns;
  r.waiting = false;
  tell(wire::EventKind::restore, n, done);
  if (r.state != RunState::stored && r.state != RunState::resident) return;
  r.small = true;
  const bool is_first = r.state == RunState::stored && !p.in_place.is_empty();
  if (!is_first) return;
  become(n, RunState::resident);
  ++arrivals_;
}

// ---- both -------------------------------------------------------------------------------------------------

// Submits what is left of the operation, as far as the tier takes it.
void Pager::advance(Operation* op) {
  if (op->submitted_ns == 0) op->submitted_ns = os::now_ns();
  const bool is_write = op->kind == Operation::Kind::write;
  const bool is_compressed = op->slot_bytes != run_bytes;
  while (op->error == 0 && op->cursor < pages_per_run) {
    const PageRange range = is_compressed ? whole_run : op->pages.next(op->cursor);
    if (range.count() == 0) {
      op->cursor = pages_per_run;
      break;
    }
    std::byte* const frame_place =
        is_compressed && !is_write ? RunCodec::place(op->data, op->slot_bytes) : op->data;
    const tiers::Transfer transfer{
        .direction = is_write ? tiers::Direction::write : tiers::Direction::read,
        .extent = {op->slot_offset + (is_compressed ? 0 : range.offset()),
                   is_compressed ? op->slot_bytes : range.bytes()},
        .buffer = frame_place + (is_compressed ? 0 : range.offset()),
        .token = static_cast<std::uint64_t>(op - operations_),
    };
    const int error = tier_->submit(transfer);
    if (error == EAGAIN && tier_->in_flight() > 0) {
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

void Pager::handle_completions() {
  tiers::Completion done[most_operations];
  // Again: what finish() submits may be over at once, and then nobody calls us for it.
  while (const std::size_t count = tier_->poll(done)) {
    for (std::size_t i = 0; i < count; ++i) {
      Operation* op = &operations_[done[i].token % most_operations];
      if (done[i].error != 0 && op->error == 0) op->error = done[i].error;
      if (--op->parts == 0 && (op->error != 0 || op->cursor >= pages_per_run)) finish(op);
    }
    if (!some_are_stalled_) continue;
    some_are_stalled_ = false;
    for (Operation& op : operations_)
      if (op.busy && op.submitted_ns != 0 && op.cursor < pages_per_run && op.error == 0) advance(&op);
  }
}

// Devices and paths do fail once; the second answer of a read counts.
bool Pager::read_again(Operation* op) {
  if (op->retried || op->run == none) return false;
  op->retried = true;
  op->error = 0;
  op->cursor = op->parts = op->bytes = 0;
  advance(op);
  return true;
}

bool Pager::is_intact(Operation* op) {
  if (op->run == none || op->error != 0) return false;
  if (op->slot_bytes != run_bytes) {
    const bool intact = codec_.decode(op->data, op->slot_bytes, op->sum, op->generation);
    codec_.publish_counts();
    return intact;
  }
  const PageSet wanted = op->pages & pages_[op->run].stored;
  for (PageRange range = wanted.next(0); range.count() > 0; range = wanted.next(range.end))
    if (!pages_.is_intact(op->run, op->data + range.offset(), range)) return false;
  return true;
}

void Pager::finish(Operation* op) {
  if (op->error == 0) observe(*op);
  if (op->kind == Operation::Kind::write) return finish_write(op);
  const bool intact = is_intact(op);
  if (op->run != none && !intact) {
    counts_.checksum_failures += op->error == 0 && !op->retried ? 1 : 0;
    counts_.io_errors += op->error != 0 && !op->retried ? 1 : 0;
    if (read_again(op)) return;
  }
  switch (op->kind) {
    case Operation::Kind::fill:
      return finish_fill(op, intact);
    case Operation::Kind::piece:
      return finish_piece(op, intact);
    default:
      return finish_read(op, intact);
  }
}

// What the device took for this transfer: from when it had it, and was done with the one before. And how much
// of that a thread waited for the device, which it does not do while its data is checked or decoded.
void Pager::observe(const Operation& op) {
  if (!codec_.is_on() || op.kind == Operation::Kind::piece) return;
  const bool is_write = op.kind == Operation::Kind::write;
  const std::uint64_t now = os::now_ns();
  std::uint64_t& last = is_write ? last_write_ns_ : last_read_ns_;
  const std::uint64_t ns = now - std::max(last, op.submitted_ns);
  const std::uint64_t awaited_ns = std::min(ns, now - std::min(now, awaited_since(is_write)));
  last = now;
  is_write ? codec_.wrote(op.bytes, ns, awaited_ns) : codec_.read(op.bytes, ns, awaited_ns);
}

// Since when a thread waits for what the device writes, or for what it reads: UINT64_MAX if none does.
std::uint64_t Pager::awaited_since(bool write) const {
  std::uint64_t since = UINT64_MAX;
  const auto count = [&](std::uint32_t n) {
    if (runs_[n].waiting) since = std::min(since, runs_[n].wait_since_ns);
  };
  for (const Operation& op : operations_)
    if (op.busy && (op.kind == Operation::Kind::write) == write && op.run != none) count(op.run);
  // The first in line waits until it may be read, or else for memory, which is free when it is written.
  if (pending_count_ > 0 && (reads_ < reads_in_flight) == write) count(pending_[pending_head_ % run_count_]);
  return since;
}

// The run is gone, or its bytes are: whatever is on its way for it ends for nobody. `releases`: its extents
// are free when they have ended.
void Pager::let_go_of_transfers(std::uint32_t n, bool releases) {
  Run& r = runs_[n];
  bool extent_is_used = false;
  for (Operation& op : operations_) {
    if (!op.busy || op.run != n) continue;
    op.run = none;
    const bool uses_frame = op.kind == Operation::Kind::read ||
                            (op.kind == Operation::Kind::write && op.buffer == RunCodec::no_buffer);
    if (uses_frame && op.frame == r.frame) {
      op.owns_frame = true;
      r.frame = none;
    }
    if (op.owns_slot) {
      op.releases_slot = releases;
    } else if (r.has_slot) {
      op.slot_offset = r.slot_offset;
      op.slot_bytes = r.slot_bytes;
      op.slot_epoch = r.slot_epoch;
      op.shares_slot = extent_is_used = releases;
    }
  }
  if (extent_is_used) r.has_slot = false;
  r.pieces = 0;
  r.in_flight = false;
}

// Whether it is the last transfer of an extent that nobody has any more.
bool Pager::ends_extent(const Operation& op) const {
  for (const Operation& other : operations_)
    if (other.busy && &other != &op && other.shares_slot && other.slot_offset == op.slot_offset) return false;
  return op.shares_slot;
}

// Nobody wants the result any more, or it has been taken.
void Pager::tidy(Operation* op) {
  if (op->owns_frame) release_frame(op->frame);
  codec_.give_back(op->buffer);
  op->busy = false;
  if (op->releases_slot || ends_extent(*op))
    release_extent({op->slot_offset, op->slot_bytes}, op->slot_epoch);
}

void Pager::finish_write(Operation* op) {
  --writes_;
  if (op->run == none) return tidy(op);
  if (op->error != 0) return write_failed(op);
  const std::uint32_t n = op->run;
  Run& r = runs_[n];
  r.in_flight = false;
  if (op->owns_slot) {
    r.slot_offset = op->slot_offset;
    r.slot_bytes = op->slot_bytes;
    r.slot_epoch = op->slot_epoch;
    r.sum = op->sum;
    r.generation = op->generation;
    r.has_slot = true;
  }
  pages_[n].stored |= op->pages;
  counts_.written_bytes += op->bytes;
  write_errors_ = 0;
  tier_failing_ = false;
  tidy(op);
  return_to_budget();
  tell(wire::EventKind::write_done, n, op->bytes);
  if (r.state == RunState::writing) return end_leaving(n);
  mover_->wake(run_address(n), run_bytes);  // who waited for its end asks again
}

void Pager::write_failed(Operation* op) {
  const std::uint32_t n = op->run;
  Run& r = runs_[n];
  ++counts_.io_errors;
  ++write_errors_;
  r.in_flight = false;
  op->releases_slot = op->owns_slot;
  const int error = op->error;
  tidy(op);
  if (r.state == RunState::writing) {
    become(n, RunState::staged);
    unstage(n);
  }
  tell(wire::EventKind::io_error, n, run_bytes);
  retry_after_ns_ = os::now_ns() + retry_pause_ns;
  if (!tier_failing_) {
    Message m(Severity::warning);
    m << "writing to the pool failed: ";
    m.error(error) << "; data stays in DRAM, over the budget if need be, next try in 1 s";
  }
  tier_failing_ = true;
}

void Pager::finish_read(Operation* op, bool intact) {
  --reads_;
  if (op->run == none) return tidy(op);
  const std::uint32_t n = op->run;
  Run& r = runs_[n];
  const int error = op->error;
  op->busy = false;
  if (!intact)
    return lose(n, error == 0 ? "its checksum is wrong" : "it cannot be read back", error == 0 ? EIO : error);
  Pages& p = pages_[n];
  p.in_frame = p.stored - p.in_place;
  if (op->slot_bytes == run_bytes) p.in_frame &= op->pages;
  counts_.read_bytes += op->bytes;
  r.from_read = true;
  become(n, RunState::cached);
  tell(wire::EventKind::read_done, n, op->bytes);
  if (p.in_frame.is_empty()) return reclaim(n);
  if (!r.waiting) return;
  restore_cached(n);
  put_back_neighbours(n);
}

}  // namespace terrace::liballoc
