// Transfers between staging frames and the tier: started under the lock, hashed
// without it, finished under it.
#include <algorithm>
#include <cstdlib>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"
#include "tiers/extent_allocator.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t retry_pause_ns = 1'000'000'000;

}  // namespace

Pager::Operation* Pager::new_operation() {
  for (Operation& op : operations_) {
    if (op.busy) continue;
    op = Operation{};
    op.busy = true;
    return &op;
  }
  return nullptr;
}

// Takes the first staged run to the tier. False when there is nothing to write or nowhere to write it.
bool Pager::start_write() {
  std::uint32_t n = none;
  Operation* op = begin_write(&n);
  if (op == nullptr) return false;
  const RunCodec::Stored stored = codec_.encode(staging_.address(op->frame), n, op->generation);
  op->data = const_cast<std::byte*>(stored.data);
  op->sum = stored.sum;
  op->buffer = stored.buffer;
  op->bytes = stored.bytes;
  if (!reserve_for(op)) return false;
  submit(op);
  return true;
}

// The run, too, as it may be freed and the operation then forgets it.
Pager::Operation* Pager::begin_write(std::uint32_t* run) {
  LockGuard guard(*lock_);
  if (staged_.is_empty() || writes_ >= writes_in_flight) return nullptr;
  if (codec_.is_on() && !codec_.has_free_buffer()) return nullptr;
  const std::uint32_t n = *run = staged_.front();
  Operation* op = new_operation();
  op->write = true;
  op->run = n;
  op->frame = runs_[n].frame;
  op->generation = ++generation_;
  become(n, RunState::writing);
  ++writes_;
  return op;
}

// Finds a place for what is to be written. False: there is none, or the run was freed meanwhile.
bool Pager::reserve_for(Operation* op) {
  LockGuard guard(*lock_);
  codec_.publish_counts();
  tiers::Extent extent;
  int error = 0;
  const bool within_share = pool_used_bytes() + tiers::whole_units(op->bytes) <= pool_limit_;
  if (op->run != none) error = within_share ? tier_->reserve(op->bytes, &extent) : ENOSPC;
  if (op->run != none && error == 0) {
    op->slot_offset = extent.offset;
    op->slot_epoch = forks_.epoch();
    pool_full_ = false;
    return true;
  }
  --writes_;
  op->bytes = 0;
  if (op->run == none) {
    tidy(op);
    return false;
  }
  codec_.give_back(op->buffer);
  op->busy = false;
  become(op->run, RunState::staged);
  refuse_writes(error, !within_share);
  return false;
}

// The pool has no room (or cannot grow): what was to leave stays in DRAM, and the user is told once.
void Pager::refuse_writes(int error, bool by_share) {
  while (!staged_.is_empty()) unstage(staged_.front());
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

// Starts to read run n, which is stored. False when no frame or operation is free.
bool Pager::start_read(std::uint32_t n, bool demanded) {
  Operation* op = nullptr;
  {
    LockGuard guard(*lock_);
    Run& r = runs_[n];
    if (r.state != RunState::stored || reads_ >= reads_in_flight) return false;
    const std::uint32_t frame = take_frame(demanded);
    if (frame == none) return false;
    op = new_operation();
    op->run = n;
    op->frame = frame;
    op->slot_offset = r.slot_offset;
    op->slot_epoch = r.slot_epoch;
    op->bytes = r.slot_bytes;
    op->data = RunCodec::place(staging_.address(frame), r.slot_bytes);
    op->sum = r.sum;
    op->generation = r.generation;
    become(n, RunState::reading);
    r.frame = frame;
    ++reads_;
  }
  submit(op);
  return true;
}

void Pager::submit(Operation* op) {
  op->submitted_ns = os::now_ns();
  const tiers::Transfer transfer{
      .direction = op->write ? tiers::Direction::write : tiers::Direction::read,
      .extent = {op->slot_offset, op->bytes},
      .buffer = op->data,
      .token = static_cast<std::uint64_t>(op - operations_),
  };
  if (const int error = tier_->submit(transfer); error != 0) finish(op, error);
}

void Pager::handle_completions() {
  tiers::Completion done[most_operations];
  // Again: what finish() submits may be over at once, and then nobody calls us for it.
  while (const std::size_t count = tier_->poll(done)) {
    for (std::size_t i = 0; i < count; ++i)
      finish(&operations_[done[i].token % most_operations], done[i].error);
  }
}

void Pager::finish(Operation* op, int error) {
  if (error == 0) observe(*op);
  op->write ? finish_write(op, error) : finish_read(op, error);
}

// What the device took for this transfer: from when it had it, and was done with the one before. And how much
// of that a thread waited for the device, which it does not do while its data is checked or decoded.
void Pager::observe(const Operation& op) {
  if (!codec_.is_on()) return;
  LockGuard guard(*lock_);
  const std::uint64_t now = os::now_ns();
  std::uint64_t& last = op.write ? last_write_ns_ : last_read_ns_;
  const std::uint64_t ns = now - std::max(last, op.submitted_ns);
  const std::uint64_t awaited_ns = std::min(ns, now - std::min(now, awaited_since(op.write)));
  last = now;
  op.write ? codec_.wrote(op.bytes, ns, awaited_ns) : codec_.read(op.bytes, ns, awaited_ns);
}

// Since when a thread waits for what the device writes, or for what it reads: UINT64_MAX if none does.
std::uint64_t Pager::awaited_since(bool write) const {
  std::uint64_t since = UINT64_MAX;
  const auto count = [&](std::uint32_t n) {
    if (runs_[n].waiting) since = std::min(since, runs_[n].wait_since_ns);
  };
  for (const Operation& op : operations_)
    if (op.busy && op.write == write && op.run != none) count(op.run);
  // The first in line waits until it may be read, or else for memory, which is free when it is written.
  if (pending_count_ > 0 && (reads_ < reads_in_flight) == write) count(pending_[pending_head_ % run_count_]);
  return since;
}

// Nobody wants the result any more.
void Pager::tidy(Operation* op) {
  if (op->frame != none) {
    staging_.give_free(op->frame);
    --used_frames_;
  }
  codec_.give_back(op->buffer);
  if (op->releases_slot && op->bytes > 0) release_extent({op->slot_offset, op->bytes}, op->slot_epoch);
  op->busy = false;
}

void Pager::finish_write(Operation* op, int error) {
  LockGuard guard(*lock_);
  --writes_;
  if (op->run == none) return tidy(op);
  if (error != 0) return write_failed(op, error);
  Run& r = runs_[op->run];
  const std::uint32_t n = op->run;
  codec_.give_back(op->buffer);
  op->busy = false;
  r.slot_offset = op->slot_offset;
  r.slot_bytes = op->bytes;
  r.slot_epoch = op->slot_epoch;
  r.sum = op->sum;
  r.generation = op->generation;
  r.has_slot = true;
  counts_.written_bytes += op->bytes;
  write_errors_ = 0;
  tier_failing_ = false;
  become(n, RunState::cached);
  return_to_budget();
  tell(wire::EventKind::write_done, n, op->bytes);
  if (r.waiting || !evicts_) {
    unstage(n);
  } else if (r.page_out) {
    r.page_out = false;
    reclaim(n);
  }
}

void Pager::write_failed(Operation* op, int error) {
  const std::uint32_t n = op->run;
  ++counts_.io_errors;
  ++write_errors_;
  codec_.give_back(op->buffer);
  op->busy = false;
  release_extent({op->slot_offset, op->bytes}, op->slot_epoch);
  become(n, RunState::staged);
  unstage(n);
  tell(wire::EventKind::io_error, n, run_bytes);
  retry_after_ns_ = os::now_ns() + retry_pause_ns;
  if (!tier_failing_) {
    Message m(Severity::warning);
    m << "writing to the pool failed: ";
    m.error(error) << "; data stays in DRAM, over the budget if need be, next try in 1 s";
  }
  tier_failing_ = true;
}

void Pager::finish_read(Operation* op, int error) {
  bool intact = false;
  if (error == 0) intact = codec_.decode(staging_.address(op->frame), op->bytes, op->sum, op->generation);
  LockGuard guard(*lock_);
  codec_.publish_counts();
  if (op->run != none && !intact && !op->retried) {
    op->retried = true;
    counts_.checksum_failures += error == 0 ? 1 : 0;
    counts_.io_errors += error != 0 ? 1 : 0;
    return retry_read(op);
  }
  --reads_;
  if (op->run == none) return tidy(op);
  const std::uint32_t n = op->run;
  Run& r = runs_[n];
  op->busy = false;
  if (!intact)
    return lose(n, error == 0 ? "its checksum is wrong" : "it cannot be read back", error == 0 ? EIO : error);
  counts_.read_bytes += op->bytes;
  r.from_read = true;
  become(n, RunState::cached);
  tell(wire::EventKind::read_done, n, op->bytes);
  if (!r.waiting) return;
  restore_cached(n);
  put_back_neighbours(n);
}

// Devices and paths do fail once; the second answer counts.
void Pager::retry_read(Operation* op) {
  const tiers::Transfer transfer{.direction = tiers::Direction::read,
                                 .extent = {op->slot_offset, op->bytes},
                                 .buffer = op->data,
                                 .token = static_cast<std::uint64_t>(op - operations_)};
  if (const int error = tier_->submit(transfer); error != 0) {
    --reads_;
    op->busy = false;
    lose(op->run, "it cannot be read back", error);
  }
}

}  // namespace terrace::liballoc
