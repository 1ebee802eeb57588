// Transitions of the pager's state machine: how a run arrives, how it leaves, what a fault sets off.
//
// Each function takes one run from one state to the next and leaves lists and counts agreeing with it.
// Around it: pager_blocks.cpp (blocks come and go), pager_frames.cpp (the memory that transitions use),
// pager_accounts.cpp (what is told of it), pager_fork.cpp, transfers.cpp (to the tier and back),
// policy.cpp (which run, and when).
#include "liballoc/pager.h"

#include <algorithm>
#include <cstring>

#include "liballoc/message.h"
#include "liballoc/os.h"

namespace terrace::liballoc {
namespace {

// Under 64 MiB the codec's buffers are better used to page with.
constexpr std::uint64_t least_runs_to_compress = 32;
constexpr std::uint64_t least_runs_by_default = std::uint64_t{100} * RunCodec::memory_runs;

constexpr std::uint64_t frames_share = 4;
constexpr std::uint32_t least_frames = 64;

constexpr std::uint64_t put_pause_ns = 10'000'000;

}  // namespace

int Pager::initialise(std::byte* base, std::size_t bytes, AddressSpace* space) {
  base_ = base;
  run_count_ = static_cast<std::uint32_t>(bytes / run_bytes);
  space_ = space;
  auto* runs =
      static_cast<Run*>(os::map_anonymous(std::size_t{run_count_} * sizeof(Run), PROT_READ | PROT_WRITE));
  pending_ = static_cast<std::uint32_t*>(
      os::map_anonymous(std::size_t{run_count_} * sizeof(std::uint32_t), PROT_READ | PROT_WRITE));
  if (runs == nullptr || pending_ == nullptr) return ENOMEM;
  runs_ = runs;
  for (RunList* list : {&idle_, &recycled_, &staged_, &cached_, &loaded_, &stored_}) list->attach(runs_);
  return forks_.initialise();
}

int Pager::activate(Mover* mover, tiers::Tier* tier, Client* client, std::uint64_t budget_bytes,
                    Compression compression) {
  mover_ = mover;
  tier_ = tier;
  client_ = client;
  // Frames are address space: as many as the machine could ever back, and what the budget allows at most. Of
  // what a limit allows, the heap has taken half.
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const std::uint64_t allowed = os::mapping_limit() / frames_share / run_bytes;
  const auto frames = static_cast<std::uint32_t>(std::min(pages * os::page_bytes / run_bytes + 64, allowed));
  if (frames < least_frames) return ENOMEM;
  if (const int error = staging_.initialise(frames, mover); error != 0) return error;
  compression_ = compression;
  const bool is_asked_for = compression > Compression::off && compression < Compression::by_budget;
  if (is_asked_for && budget_bytes / run_bytes < least_runs_to_compress)
    Message(Severity::warning) << "TERRACE_COMPRESS: a budget under 64 MiB leaves no room for it; nothing is "
                                  "compressed until it grows";
  if (const int error = mover->watch(base_, std::size_t{run_count_} * run_bytes); error != 0) return error;
  mode_ = Mode::paging;
  set_budget(budget_bytes);
  return 0;
}

void Pager::set_budget(std::uint64_t bytes) {
  budget_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / run_bytes, run_count_));
  // Taking by copy needs a frame before it frees the run: that much is kept out of the budget.
  if (mover_ != nullptr && mover_->takes_by_copy()) budget_ -= std::min(budget_, copy_allowance);
  fit_codec(bytes / run_bytes);
  budget_ -= std::min(budget_ - std::min(budget_, 1U), codec_.taken_runs());
  asked_budget_ = budget_;
}

// The codec's memory is a part of the budget, so each budget says whether it works: a process that joins a
// job begins with little and is granted more, and what is granted is taken back for others.
void Pager::fit_codec(std::uint64_t runs) {
  const bool by_default = compression_ == Compression::by_budget;
  const bool has_room = runs >= (by_default ? least_runs_by_default : least_runs_to_compress);
  const Compression wanted = by_default ? Compression::automatic : compression_;
  if (codec_.use(has_room ? wanted : Compression::off) == 0) return;
  Message(Severity::warning) << "no memory for compressing; nothing is compressed";
  compression_ = Compression::off;
}

void Pager::set_pool_limit(std::uint64_t bytes) {
  pool_limit_ = bytes;
  tier_->set_limit(bytes);
}

// ---- lists and states -----------------------------------------------------------------------------------

RunList* Pager::list_of(const Run& r) {
  switch (r.state) {
    case RunState::resident:
      if (r.live == 0) return &recycled_;
      return r.pins == 0 ? &idle_ : nullptr;
    case RunState::staged:
      return r.stuck ? nullptr : &staged_;
    case RunState::cached:
      return r.from_read ? &loaded_ : &cached_;
    case RunState::stored:
      return &stored_;
    case RunState::empty:
    case RunState::writing:
    case RunState::reading:
    case RunState::lost:
      break;
  }
  return nullptr;
}

void Pager::enlist(std::uint32_t n) {
  Run& r = runs_[n];
  r.arrival = arrivals_;
  RunList* list = list_of(r);
  if (list == nullptr) return;
  if (list != &idle_ || !r.cold) return list->push_back(n);
  r.arrival -= budget_;  // as if it had been idle for long
  list->push_front(n);
}

void Pager::delist(std::uint32_t n) {
  if (RunList* list = list_of(runs_[n]); list != nullptr) list->remove(n);
}

void Pager::become(std::uint32_t n, RunState state) {
  delist(n);
  runs_[n].state = state;
  enlist(n);
}

// ---- arriving -------------------------------------------------------------------------------------------

void Pager::settle(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.hidden) show(n);
  if (r.waiting) counts_.stall_ns += os::now_ns() - r.wait_since_ns;
  r.waiting = false;
}

// Where a mapping would have to be cut in two, the kernel may refuse (vm.max_map_count): the run stays
// hidden, and every fork asks again.
bool Pager::show(std::uint32_t n) {
  Run& r = runs_[n];
  r.hidden = os::advise(run_address(n), run_bytes, MADV_DOFORK) != 0;
  some_stay_hidden_ |= r.hidden;
  return !r.hidden;
}

// What was evicted and not hidden would read as zeroes in a child that is made by a bare clone.
bool Pager::hide(std::uint32_t n) {
  Run& r = runs_[n];
  r.hidden = r.hidden || os::advise(run_address(n), run_bytes, MADV_DONTFORK) == 0;
  if (r.hidden || hide_refused_told_) return r.hidden;
  hide_refused_told_ = true;
  Message(Severity::warning)
      << "the kernel refuses to set memory apart that is to leave DRAM (more mappings than "
         "vm.max_map_count?): what it refuses stays in DRAM, over the budget if need be";
  return false;
}

// Puts memory under an empty run. False: there is none to be had now, the run waits in line.
bool Pager::back(std::uint32_t n) {
  Run& r = runs_[n];
  const std::uint32_t frame = take_frame(true);
  if (frame == none) {
    outgrown_ = true;
    enqueue(n);
    return false;
  }
  if (r.zero_fill) std::memset(staging_.address(frame), 0, run_bytes);
  r.zero_fill = false;
  r.frame = frame;
  if (r.live > 0) ++data_runs_;
  return put_back(n);
}

// Puts a frame's pages under their address: the end of every way back.
bool Pager::put_back(std::uint32_t n) {
  Run& r = runs_[n];
  bool keeps_memory = false;
  const int error = mover_->put(staging_.address(r.frame), run_address(n), &keeps_memory);
  if (error != 0) {
    error == ENOTRECOVERABLE ? lose(n, "its pages cannot be put back", EIO) : keep_in_frame(n, error);
    return false;
  }
  delist(n);
  unstick(r);
  --used_frames_;
  if (mover_->left_hidden()) r.hidden = true;
  // A copy gave the run memory of its own: the frame's goes, so that the account stays level.
  keeps_memory ? staging_.discard(r.frame) : staging_.give_absent(r.frame);
  r.frame = none;
  r.from_read = r.page_out = r.may_have_holes = false;
  release_slot(r);
  r.state = RunState::resident;
  ++arrivals_;
  enlist(n);
  settle(n);
  return true;
}

// The kernel refused, for want of memory most likely. All bytes are in the frame, and there they wait. What
// the tier has of them is given up: the program may have changed pages that were put back for a moment.
void Pager::keep_in_frame(std::uint32_t n, int error) {
  Run& r = runs_[n];
  delist(n);
  if (r.live == 0) {  // a touch of freed memory
    staging_.give_free(r.frame);
    --used_frames_;
    r.frame = none;
    return enqueue(n);
  }
  stuck_runs_ += r.stuck ? 0 : 1;
  r.stuck = true;
  r.state = RunState::staged;
  r.from_read = false;
  release_slot(r);
  enqueue(n);
  retry_put_ns_ = os::now_ns() + put_pause_ns;
  if (stuck_told_) return;
  stuck_told_ = true;
  Message m(Severity::warning);
  m << "the kernel does not put 2 MiB back at " << static_cast<const void*>(run_address(n)) << ", ";
  m.error(error) << "; it stays in DRAM and is tried again, who touches it waits; is there memory left?";
}

void Pager::unstick(Run& r) {
  stuck_runs_ -= r.stuck ? 1 : 0;
  r.stuck = false;
}

// ---- leaving --------------------------------------------------------------------------------------------

bool Pager::stage(std::uint32_t n) {
  Run& r = runs_[n];
  const bool copies = mover_->takes_by_copy();
  const std::uint32_t frame = copies ? take_copy_frame() : staging_.take_absent();
  if (frame == none) return false;
  int error = hide(n) ? 0 : ENOMEM;
  if (error == 0) {
    error = mover_->take(run_address(n), staging_.address(frame), r.may_have_holes);
    if (error != 0) show(n);
  }
  if (error != 0) {
    if (copies) {
      --used_frames_;
      staging_.give_free(frame);
    } else {
      staging_.give_absent(frame);
    }
    counts_.pinned_refusals += error == EBUSY ? 1 : 0;
    idle_.remove(n);  // not now: to the young end of the queue, and so what is cold, which stays so
    r.arrival = arrivals_;
    idle_.push_back(n);
    return false;
  }
  copies ? --backed_ : ++used_frames_;
  r.frame = frame;
  become(n, RunState::staged);
  ++counts_.evictions;
  counts_.evicted_bytes += run_bytes;
  tell(wire::EventKind::evict, n, run_bytes);
  return true;
}

bool Pager::unstage(std::uint32_t n) {
  if (!put_back(n)) return false;
  ++counts_.cancelled_evictions;
  tell(wire::EventKind::cancel, n, run_bytes);
  return true;
}

// Touched while its write is under way, which goes on for nobody. The device reads the frame, so the run gets
// a copy of it, unless what is written is a compressed copy already.
void Pager::rescue(std::uint32_t n) {
  Run& r = runs_[n];
  Operation* write = nullptr;
  for (Operation& op : operations_)
    if (op.busy && op.run == n) write = &op;
  if (write->buffer != RunCodec::no_buffer) {
    write->frame = none;
  } else {
    const std::uint32_t frame = take_frame(true);
    if (frame == none) return;  // the end of the write puts it back
    std::memcpy(staging_.address(frame), staging_.address(r.frame), run_bytes);
    r.frame = frame;
  }
  write->run = none;
  write->releases_slot = true;
  r.has_slot = false;
  unstage(n);
}

void Pager::release_extent(const tiers::Extent& extent, std::uint32_t epoch) {
  if (mode_ == Mode::paging && forks_.may_release(extent, epoch)) give_back(extent);
}

void Pager::give_back(const tiers::Extent& extent) {
  tier_->release(extent);
  const bool was_full = pool_full_;
  pool_full_ = false;
  if (was_full) return_to_budget();
}

void Pager::release_slot(Run& r) {
  if (r.has_slot) release_extent({r.slot_offset, r.slot_bytes}, r.slot_epoch);
  r.has_slot = false;
}

void Pager::lose(std::uint32_t n, const char* why, int error) {
  Run& r = runs_[n];
  delist(n);
  unstick(r);
  if (r.frame != none) {
    staging_.discard(r.frame);  // it may have been left in part
    --used_frames_;
    --backed_;
  }
  r.frame = none;
  // The extent is not trusted again: it stays reserved as long as the process lives, so that no other data is
  // put where some was lost. It still takes up disk, and therefore counts as used.
  r.has_slot = false;
  r.state = RunState::lost;
  ++counts_.lost_runs;
  tell(wire::EventKind::lost, n, run_bytes);
  report_block(n, why, error);
  // Last: who waits for it meets SIGBUS from here on, which may end the process.
  mover_->poison(run_address(n));
  settle(n);
}

// ---- faults ---------------------------------------------------------------------------------------------

void Pager::enqueue(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.queued) return;  // at most once each, so there is always room
  r.queued = true;
  pending_[(pending_head_ + pending_count_++) % run_count_] = n;
}

void Pager::handle_fault(const Fault& fault) {
  LockGuard guard(*lock_);
  const std::uint64_t start = os::now_ns();
  const std::uint32_t n = run_of(fault.address);
  if (n >= run_count_) return;  // a frame: nobody but the agent touches those
  Run& r = runs_[n];
  ++counts_.faults;
  if (r.state == RunState::resident) {
    if (fault.write_protected) return mover_->wake(run_address(n), run_bytes);
    return fault_on_resident(n, fault.address);
  }
  if (!r.waiting) r.wait_since_ns = start;
  r.waiting = true;
  fault_on_missing(n);
}

// A hole in a run that is there, or a page that came back since the fault was raised; anything else was lost.
void Pager::fault_on_resident(std::uint32_t n, std::byte* address) {
  if (runs_[n].may_have_holes || !mover_->fills_holes() || Mover::has_page(address)) {
    mover_->zero_page(address);
    return;
  }
  --backed_;
  lose(n, "a page of it has vanished", EFAULT);
}

void Pager::fault_on_missing(std::uint32_t n) {
  Run& r = runs_[n];
  tell(wire::EventKind::fault, n, run_bytes);
  switch (r.state) {
    case RunState::resident:
      break;
    case RunState::empty:
      if (back(n)) back_ahead(n);
      break;
    case RunState::staged:
      if (!r.stuck) unstage(n);
      break;
    case RunState::writing:
      rescue(n);
      break;
    case RunState::cached:
      ++counts_.prefetch_hits;
      restore_cached(n);
      put_back_neighbours(n);
      break;
    case RunState::stored:
      enqueue(n);
      cursor_block_ = r.block;
      cursor_run_ = n + 1;
      break;
    case RunState::reading:
      break;
    case RunState::lost:
      mover_->wake(run_address(n), run_bytes);
      break;
  }
}

void Pager::restore_cached(std::uint32_t n) {
  Run& r = runs_[n];
  if (!put_back(n)) return;
  r.heat = static_cast<std::uint8_t>(std::min<unsigned>(r.heat + 1U, most_heat));
  ++counts_.restores;
  counts_.restored_bytes += run_bytes;
  tell(wire::EventKind::restore, n, run_bytes);
}

// A new block is written from its beginning to its end: after the first runs the rest is backed ahead.
void Pager::back_ahead(std::uint32_t n) {
  constexpr std::uint32_t most_ahead = 8;
  const std::uint32_t block = runs_[n].block;
  if (block == 0 || n == 0 || runs_[n - 1].block != block || runs_[n - 1].state != RunState::resident) return;
  for (std::uint32_t next = n + 1; next <= n + most_ahead && next < run_count_; ++next) {
    if (runs_[next].block != block || runs_[next].state != RunState::empty) return;
    if (staging_.free_frames() == 0 && recycled_.is_empty() && backed_ >= budget_) return;
    if (!back(next)) return;
  }
}

// One touch of a tensor brings back all of it that is in DRAM already.
void Pager::put_back_neighbours(std::uint32_t n) {
  constexpr std::uint32_t most_at_once = 16;
  const std::uint32_t block = runs_[n].block;
  for (std::uint32_t next = n + 1; block != 0 && next <= n + most_at_once && next < run_count_; ++next) {
    if (runs_[next].block != block || runs_[next].state != RunState::cached) return;
    ++counts_.prefetch_hits;
    restore_cached(next);
  }
}

}  // namespace terrace::liballoc
