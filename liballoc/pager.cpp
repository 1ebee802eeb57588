// Transitions of the pager's state machine; the policy is in policy.cpp, transfers in transfers.cpp.
#include "liballoc/pager.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "liballoc/message.h"
#include "liballoc/os.h"

namespace terrace::liballoc {

int Pager::initialise(std::byte* base, std::size_t bytes, AddressSpace* space) {
  base_ = base;
  run_count_ = static_cast<std::uint32_t>(bytes / run_bytes);
  space_ = space;
  auto* runs =
      static_cast<Run*>(os::map_anonymous(std::size_t{run_count_} * sizeof(Run), PROT_READ | PROT_WRITE));
  pending_ = static_cast<std::uint32_t*>(
      os::map_anonymous(most_pending * sizeof(std::uint32_t), PROT_READ | PROT_WRITE));
  if (runs == nullptr || pending_ == nullptr) return ENOMEM;
  runs_ = runs;
  for (RunList* list : {&idle_, &recycled_, &staged_, &cached_, &loaded_, &stored_}) list->attach(runs_);
  return forks_.initialise();
}

int Pager::activate(Mover* mover, tiers::Tier* tier, Client* client, std::uint64_t budget_bytes) {
  mover_ = mover;
  tier_ = tier;
  client_ = client;
  // Frames are address space: as many as the machine could ever back, and what the budget allows at most.
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto frames = static_cast<std::uint32_t>(pages * os::page_bytes / run_bytes + 64);
  if (const int error = staging_.initialise(frames, mover); error != 0) return error;
  if (const int error = mover->watch(base_, std::size_t{run_count_} * run_bytes); error != 0) return error;
  mode_ = Mode::paging;
  set_budget(budget_bytes);
  return 0;
}

void Pager::set_budget(std::uint64_t bytes) {
  budget_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / run_bytes, run_count_));
  // Taking by copy needs a frame before it frees the run: that much is kept out of the budget.
  if (mover_ != nullptr && mover_->takes_by_copy()) budget_ -= std::min(budget_, copy_allowance);
  asked_budget_ = budget_;
}

// ---- lists and states
// ---------------------------------------------------------------------------------------

RunList* Pager::list_of(const Run& r) {
  switch (r.state) {
    case RunState::resident:
      if (r.live == 0) return &recycled_;
      return r.pins == 0 ? &idle_ : nullptr;
    case RunState::staged:
      return &staged_;
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
  if (RunList* list = list_of(runs_[n]); list != nullptr) list->push_back(n);
}

void Pager::delist(std::uint32_t n) {
  if (RunList* list = list_of(runs_[n]); list != nullptr) list->remove(n);
}

void Pager::become(std::uint32_t n, RunState state) {
  delist(n);
  runs_[n].state = state;
  enlist(n);
}

// ---- blocks come and go
// -------------------------------------------------------------------------------------

void Pager::attach_block(std::uint32_t n, std::uint32_t block, bool whole) {
  Run& r = runs_[n];
  delist(n);
  r.block = whole ? block : 0;
  const bool first = r.live++ == 0;
  if (first) r.frame = none;  // records begin as the kernel's zeroes
  if (first && r.state == RunState::empty && mode_ == Mode::plain) {
    r.state = RunState::resident;
    grow_backed();
  }
  if (first && r.state != RunState::empty) ++data_runs_;
  enlist(n);
}

void Pager::detach_block(std::uint32_t n) {
  Run& r = runs_[n];
  r.block = 0;
  if (r.live > 1) {
    --r.live;
    return;
  }
  delist(n);
  if (r.state != RunState::empty) --data_runs_;
  r.live = 0;
  if (r.pins > 0) let_go_of_pins(n);
  r.heat = 0;
  r.page_out = r.waiting = false;
  switch (r.state) {
    case RunState::empty:
    case RunState::resident:
      break;
    case RunState::lost:
      r.state = mover_->heal(run_address(n)) == 0 ? RunState::empty : RunState::lost;
      r.hidden = false;
      break;
    case RunState::writing:
    case RunState::reading:
      // The transfer goes on into a frame that is nobody's; its end gives back frame and extent.
      for (Operation& op : operations_) {
        if (!op.busy || op.run != n) continue;
        op.run = none;
        op.releases_slot = true;
      }
      r.has_slot = false;
      r.state = RunState::empty;
      break;
    case RunState::staged:
    case RunState::cached:
      staging_.give_free(r.frame);
      --used_frames_;
      [[fallthrough]];
    case RunState::stored:
      release_slot(r);
      r.state = RunState::empty;
      break;
  }
  if (r.state == RunState::empty) r.frame = none;
  enlist(n);
}

// From the last run to the first, so that a block's runs leave from its end and, brought back in the reverse
// order, return from its beginning.
void Pager::on_allocate(std::uint32_t block) {
  const Block& b = space_->block(block);
  on_extend(block, b.first, b.granules);
  ++counts_.allocations;
  if (client_ != nullptr) {
    client_->push({.time_ns = os::now_ns(),
                   .address = reinterpret_cast<std::uintptr_t>(space_->address(block)),
                   .call_site = b.call_site,
                   .bytes = std::uint64_t{b.granules} * granule_bytes,
                   .kind = wire::EventKind::alloc});
  }
}

void Pager::on_extend(std::uint32_t block, std::uint32_t first, std::uint32_t granules) {
  const Block& b = space_->block(block);
  const std::uint32_t begin = first / granules_per_run;
  const std::uint32_t end = (first + granules - 1) / granules_per_run + 1;
  const std::uint32_t recycled_before = recycled_.size();
  for (std::uint32_t n = end; n-- > begin;) {
    const bool whole = n * granules_per_run >= b.first && (n + 1) * granules_per_run <= b.first + b.granules;
    // A block that grows inside a run it already has does not count twice.
    if (first != b.first && n == begin && first % granules_per_run != 0 && runs_[n].live > 0) {
      runs_[n].block = whole ? block : runs_[n].block;
      continue;
    }
    attach_block(n, block, whole);
  }
  if (recycled_before - recycled_.size() == end - begin) ++counts_.recycled_allocations;
  counts_.heap_live_bytes += std::uint64_t{granules} * granule_bytes;
  counts_.heap_peak_bytes = std::max(counts_.heap_peak_bytes, counts_.heap_live_bytes);
  phase_.update(data_runs_, reserve_runs());
}

void Pager::on_free(std::uint32_t block) {
  const Block& b = space_->block(block);
  const std::uint64_t bytes = std::uint64_t{b.granules} * granule_bytes;
  const std::uint32_t end = (b.first + b.granules - 1) / granules_per_run + 1;
  for (std::uint32_t n = b.first / granules_per_run; n < end; ++n) detach_block(n);
  ++counts_.frees;
  counts_.heap_live_bytes -= bytes;
  phase_.update(data_runs_, reserve_runs());
  if (client_ != nullptr) {
    client_->push({.time_ns = os::now_ns(),
                   .address = reinterpret_cast<std::uintptr_t>(space_->address(block)),
                   .call_site = b.call_site,
                   .bytes = bytes,
                   .kind = wire::EventKind::free});
  }
}

// The tail of a block was cut off at `first`; the run in which the cut lies stays the block's.
void Pager::on_cut(std::uint32_t first, std::uint32_t granules) {
  const std::uint32_t begin = (first + granules_per_run - 1) / granules_per_run;
  const std::uint32_t end = (first + granules - 1) / granules_per_run + 1;
  for (std::uint32_t n = begin; n < end; ++n) detach_block(n);
  if (first % granules_per_run != 0) runs_[first / granules_per_run].block = 0;
  counts_.heap_live_bytes -= std::uint64_t{granules} * granule_bytes;
}

// In plain mode the kernel backs fresh addresses with zeroes by itself.
void Pager::mark_zero_fill(std::uint32_t block) {
  if (mode_ == Mode::plain) return;
  const Block& b = space_->block(block);
  const std::uint32_t begin = (b.first + granules_per_run - 1) / granules_per_run;
  const std::uint32_t end = (b.first + b.granules) / granules_per_run;
  for (std::uint32_t n = begin; n < end; ++n) runs_[n].zero_fill = runs_[n].state == RunState::empty;
}

bool Pager::reads_as_zero(std::uint32_t n, bool virgin) const {
  return mode_ == Mode::plain ? virgin : runs_[n].zero_fill;
}

// Freed as it is: mlock() and mprotect() left marks on the mapping that the next block must not find.
void Pager::let_go_of_pins(std::uint32_t n) {
  runs_[n].pins = 0;
  --pinned_runs_;
  os::unlock(run_address(n), run_bytes);
  os::protect(run_address(n), run_bytes, PROT_READ | PROT_WRITE);
}

bool Pager::can_pin(std::uint32_t first_run, std::uint32_t last_run) const {
  constexpr std::uint32_t left_to_page_with = 4;
  std::uint32_t more = 0;
  for (std::uint32_t n = first_run; n <= last_run; ++n) more += runs_[n].pins == 0 ? 1 : 0;
  return mode_ != Mode::paging || more == 0 || pinned_runs_ + more + left_to_page_with < budget_;
}

void Pager::pin(std::uint32_t first_run, std::uint32_t last_run) {
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    delist(n);
    Run& r = runs_[n];
    if (r.pins == 0) ++pinned_runs_;
    if (r.pins < std::numeric_limits<std::uint16_t>::max()) ++r.pins;
    enlist(n);
  }
}

void Pager::unpin(std::uint32_t first_run, std::uint32_t last_run) {
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    delist(n);
    if (runs_[n].pins > 0 && --runs_[n].pins == 0) --pinned_runs_;
    enlist(n);
  }
}

void Pager::forget(std::uint32_t first_run, std::uint32_t last_run) {
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    const std::uint16_t live = runs_[n].live;
    const std::uint32_t block = runs_[n].block;
    if (live != 1 || runs_[n].state == RunState::resident || runs_[n].state == RunState::empty) continue;
    detach_block(n);
    attach_block(n, block, block != 0);
    runs_[n].zero_fill = true;
  }
}

std::uint32_t Pager::trim(std::uint32_t keep) {
  std::uint32_t given = 0;
  for (; recycled_.size() > keep; ++given) drop_recycled(recycled_.front());
  while (keep == 0 && staging_.drop_free()) {
    --backed_;
    ++given;
  }
  return given;
}

// ---- frames
// -------------------------------------------------------------------------------------------------

void Pager::drop_recycled(std::uint32_t n) {
  become(n, RunState::empty);
  os::advise(run_address(n), run_bytes, MADV_DONTNEED);
  --backed_;
}

// Takes the memory of a freed run: its content is nobody's, so one move makes it a frame.
std::uint32_t Pager::steal_recycled() {
  while (!recycled_.is_empty()) {
    const std::uint32_t n = recycled_.front();
    const std::uint32_t frame = mover_->takes_by_copy() ? none : staging_.take_absent();
    if (frame != none && mover_->take(run_address(n), staging_.address(frame)) == 0) {
      become(n, RunState::empty);
      return frame;
    }
    if (frame != none) staging_.give_absent(frame);
    drop_recycled(n);  // shared with a child, or never touched
    if (mover_->takes_by_copy()) break;
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

// ---- arriving
// -----------------------------------------------------------------------------------------------

void Pager::settle(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.hidden) os::advise(run_address(n), run_bytes, MADV_DOFORK);
  r.hidden = false;
  if (r.waiting) counts_.stall_ns += os::now_ns() - r.wait_since_ns;
  r.waiting = false;
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
    lose(n, "its pages cannot be put back", error);
    return false;
  }
  delist(n);
  --used_frames_;
  // A copy gave the run memory of its own: the frame's goes, so that the account stays level.
  keeps_memory ? staging_.discard(r.frame) : staging_.give_absent(r.frame);
  r.frame = none;
  r.from_read = r.page_out = false;
  release_slot(r);
  r.state = RunState::resident;
  enlist(n);
  settle(n);
  return true;
}

// ---- leaving
// ------------------------------------------------------------------------------------------------

bool Pager::stage(std::uint32_t n) {
  Run& r = runs_[n];
  const bool copies = mover_->takes_by_copy();
  const std::uint32_t frame = copies ? take_copy_frame() : staging_.take_absent();
  if (frame == none) return false;
  if (const int error = mover_->take(run_address(n), staging_.address(frame)); error != 0) {
    if (copies) {
      --used_frames_;
      staging_.give_free(frame);
    } else {
      staging_.give_absent(frame);
    }
    counts_.pinned_refusals += error == EBUSY ? 1 : 0;
    delist(n);  // not now: to the young end of the queue
    enlist(n);
    return false;
  }
  copies ? --backed_ : ++used_frames_;
  os::advise(run_address(n), run_bytes, MADV_DONTFORK);
  r.hidden = true;
  r.frame = frame;
  become(n, RunState::staged);
  ++counts_.evictions;
  counts_.evicted_bytes += run_bytes;
  tell(wire::EventKind::evict, n, run_bytes);
  return true;
}

bool Pager::unstage(std::uint32_t n) {
  ++counts_.cancelled_evictions;
  tell(wire::EventKind::cancel, n, run_bytes);
  return put_back(n);
}

// Touched while its write is under way: the device reads the frame, so the run gets a copy of it, and the
// write goes on for nobody.
void Pager::rescue(std::uint32_t n) {
  Run& r = runs_[n];
  const std::uint32_t frame = take_frame(true);
  if (frame == none) return;  // the end of the write puts it back
  std::memcpy(staging_.address(frame), staging_.address(r.frame), run_bytes);
  for (Operation& op : operations_) {
    if (!op.busy || op.run != n) continue;
    op.run = none;
    op.releases_slot = true;
  }
  r.frame = frame;
  r.has_slot = false;
  unstage(n);
}

void Pager::release_extent(std::uint64_t offset, std::uint32_t epoch) {
  const tiers::Extent extent{offset, run_bytes};
  if (mode_ == Mode::paging && forks_.may_release(extent, epoch)) {
    tier_->release(extent);
    --slots_used_;
    pool_full_ = false;
  }
}

void Pager::release_slot(Run& r) {
  if (r.has_slot) release_extent(r.slot_offset, r.slot_epoch);
  r.has_slot = false;
}

void Pager::lose(std::uint32_t n, const char* why, int error) {
  Run& r = runs_[n];
  delist(n);
  if (r.frame != none) {
    staging_.give_free(r.frame);
    --used_frames_;
  }
  r.frame = none;
  // The extent is not trusted again: it stays reserved as long as the process lives, so that no other data is
  // put where some was lost. It still takes up disk, and therefore counts in slots_used_.
  r.has_slot = false;
  r.state = RunState::lost;
  mover_->poison(run_address(n));
  settle(n);
  ++counts_.lost_runs;
  tell(wire::EventKind::lost, n, run_bytes);
  report_block(n, why, error);
}

void Pager::report_block(std::uint32_t n, const char* what, int error) {
  const std::uint32_t id = runs_[n].block != 0 ? runs_[n].block : space_->live_block_covering(run_address(n));
  Message m(Severity::error);
  m << "lost 2 MiB at " << static_cast<const void*>(run_address(n));
  if (id != 0) {
    m << " of the allocation of ";
    m.bytes(space_->capacity(id)) << " at " << static_cast<const void*>(space_->address(id));
    m << " made from " << reinterpret_cast<const void*>(space_->block(id).call_site);
  }
  m << ": " << what << ", ";
  m.error(error) << "; touching it raises SIGBUS";
}

// ---- faults
// -------------------------------------------------------------------------------------------------

void Pager::enqueue(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.queued || pending_count_ == most_pending) return;
  r.queued = true;
  pending_[(pending_head_ + pending_count_++) % most_pending] = n;
}

void Pager::handle_fault(const Fault& fault) {
  LockGuard guard(*lock_);
  const std::uint64_t start = os::now_ns();
  const std::uint32_t n = run_of(fault.address);
  if (n >= run_count_) return;  // a frame: nobody but the agent touches those
  Run& r = runs_[n];
  ++counts_.faults;
  if (r.state == RunState::resident) {
    // A hole in a run that is there, or a page that came back since the fault was raised.
    fault.write_protected ? mover_->wake(run_address(n), run_bytes) : void(mover_->zero_page(fault.address));
    return;
  }
  if (!r.waiting) r.wait_since_ns = start;
  r.waiting = true;
  fault_on_missing(n);
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
      unstage(n);
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
  r.heat = static_cast<std::uint8_t>(std::min(r.heat + 1, 3));
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

void Pager::tell(wire::EventKind kind, std::uint32_t n, std::uint64_t bytes) {
  if (client_ == nullptr) return;
  client_->push({.time_ns = os::now_ns(),
                 .address = reinterpret_cast<std::uintptr_t>(run_address(n)),
                 .call_site = runs_[n].block != 0 ? space_->block(runs_[n].block).call_site : 0,
                 .bytes = bytes,
                 .kind = kind});
}

// ---- accounts
// -----------------------------------------------------------------------------------------------

bool Pager::is_quiet() const {
  return staged_.is_empty() && writes_ == 0 && reads_ == 0 && pending_count_ == 0 && !wants_eviction();
}

void Pager::fill(terrace_statistics* out) const {
  const std::size_t size = out->size;
  *out = counts_;
  out->size = size;
  out->resident_bytes = backed_bytes();
  out->recycled_bytes = (std::uint64_t{recycled_.size()} + staging_.free_frames()) * run_bytes;
  out->staging_bytes = std::uint64_t{used_frames_} * run_bytes;
  out->stored_bytes = std::uint64_t{stored_.size()} * run_bytes;
  out->budget_bytes = budget_bytes();
}

void Pager::check_invariants() const {
  std::uint32_t resident = 0;
  std::uint32_t frames = 0;
  std::uint32_t data = 0;
  for (std::uint32_t n = 0; n * granules_per_run < space_->top(); ++n) {
    const Run& r = runs_[n];
    resident += r.state == RunState::resident ? 1 : 0;
    const bool needs_frame = r.state == RunState::staged || r.state == RunState::cached;
    frames += needs_frame ? 1 : 0;
    data += r.live > 0 && r.state != RunState::empty ? 1 : 0;
    if (needs_frame && r.frame == none) std::abort();
  }
  for (const Operation& op : operations_) frames += op.busy ? 1 : 0;
  const bool frames_agree = frames == used_frames_;
  const bool backed_agrees = backed_ == resident + used_frames_ + staging_.free_frames();
  if (frames_agree && backed_agrees && data == data_runs_) return;
  Message(Severity::error) << "pager invariant broken: resident " << std::uint64_t{resident} << ", frames "
                           << std::uint64_t{frames} << "/" << std::uint64_t{used_frames_} << ", free "
                           << std::uint64_t{staging_.free_frames()} << ", backed " << std::uint64_t{backed_}
                           << ", data " << std::uint64_t{data} << "/" << std::uint64_t{data_runs_};
  std::abort();
}

}  // namespace terrace::liballoc
