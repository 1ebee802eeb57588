// Blocks come and go. A block lies on whole runs and on parts of runs; a run is live while any block lies
// on it, and its record names a block only where the run is wholly that block's.
//
// The program's threads run this when they allocate and free, under the heap's lock: it moves no data and
// waits for none. A run that is freed while the device works on its frame is let go at once, and the
// transfer goes on for nobody (Pager::Operation). Pins are here because they, too, only put runs on lists
// and take them off.
#include <algorithm>
#include <limits>

#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

void Pager::attach_block(std::uint32_t n, std::uint32_t block, bool whole) {
  Run& r = runs_[n];
  delist(n);
  r.block = whole ? block : 0;
  const bool first = r.live++ == 0;
  if (first && r.state == RunState::resident) ++arrivals_;
  if (first) r.frame = none;  // records begin as the kernel's zeroes
  if (first && r.state == RunState::empty && mode_ == Mode::plain) {
    r.state = RunState::resident;
    r.may_have_holes = true;
    grow_backed();
  }
  if (first && r.state != RunState::empty) ++data_runs_;
  take_hints(n);
  enlist(n);
}

// Off its list: what is cold is put elsewhere.
void Pager::take_hints(std::uint32_t n) {
  Run& r = runs_[n];
  const unsigned hints = r.block != 0 ? space_->block(r.block).hints : 0U;
  r.cold = (hints & TERRACE_HINT_COLD) != 0;
  r.long_lived = (hints & TERRACE_HINT_LONG_LIVED) != 0;
  if (r.long_lived) r.heat = most_heat;
}

void Pager::detach_block(std::uint32_t n) {
  Run& r = runs_[n];
  r.block = 0;
  if (r.live > 1) {
    --r.live;
    return;
  }
  delist(n);
  unstick(r);
  if (r.state != RunState::empty) --data_runs_;
  r.live = 0;
  if (r.pins > 0) let_go_of_pins(n);
  r.heat = 0;
  r.page_out = r.waiting = r.cold = r.long_lived = false;
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

void Pager::own_whole(std::uint32_t n, std::uint32_t block) {
  delist(n);
  runs_[n].block = block;
  take_hints(n);
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
  // What was its last run is an inner one now.
  if (first != b.first && (first - 1) / granules_per_run != end - 1) space_->block(block).pins[1] = 0;
  for (std::uint32_t n = end; n-- > begin;) {
    const bool whole = n * granules_per_run >= b.first && (n + 1) * granules_per_run <= b.first + b.granules;
    // A block that grows inside a run it already has does not count twice.
    if (first != b.first && n == begin && first % granules_per_run != 0 && runs_[n].live > 0) {
      if (whole) own_whole(n, block);
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
  for (std::uint32_t n = b.first / granules_per_run; n < end; ++n) {
    if (runs_[n].live > 1) let_go_of_own_pins(block, n);
    detach_block(n);
  }
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
  forget_locks(n);
  runs_[n].pins = 0;
  --pinned_runs_;
  os::unlock(run_address(n), run_bytes);
  os::protect(run_address(n), run_bytes, PROT_READ | PROT_WRITE);
}

// Where the block's pins of run n are counted. Only its first run and its last may be shared: nullptr for the
// others.
std::uint16_t* Pager::own_pins(std::uint32_t block, std::uint32_t n) {
  if (block == 0) return nullptr;
  Block& b = space_->block(block);
  if (n == b.first / granules_per_run) return &b.pins[0];
  return n == (b.first + b.granules - 1) / granules_per_run ? &b.pins[1] : nullptr;
}

// The same for a block that leaves a run to its neighbours, whose pins and pages stay as they are.
void Pager::let_go_of_own_pins(std::uint32_t block, std::uint32_t n) {
  const Block& b = space_->block(block);
  const std::uint32_t first = std::max(b.first, n * granules_per_run);
  const std::uint32_t past = std::min(b.first + b.granules, (n + 1) * granules_per_run);
  std::byte* const begin = base_ + std::size_t{first} * granule_bytes;
  const std::size_t bytes = std::size_t{past - first} * granule_bytes;
  const bool had_locks = unlock_pages(begin, begin + bytes);
  std::uint16_t* own = own_pins(block, n);
  const bool had_pins = own != nullptr && *own > 0;
  if (had_pins) {
    Run& r = runs_[n];
    delist(n);
    r.pins = static_cast<std::uint16_t>(r.pins - std::min(r.pins, *own));
    if (r.pins == 0) --pinned_runs_;
    enlist(n);
    *own = 0;
  }
  if (!had_pins && !had_locks) return;
  os::unlock(begin, bytes);
  os::protect(begin, bytes, PROT_READ | PROT_WRITE);
}

bool Pager::can_pin(std::uint32_t first_run, std::uint32_t last_run) const {
  constexpr std::uint32_t left_to_page_with = 4;
  std::uint32_t more = 0;
  for (std::uint32_t n = first_run; n <= last_run; ++n) more += runs_[n].pins == 0 ? 1 : 0;
  return mode_ != Mode::paging || more == 0 || pinned_runs_ + more + left_to_page_with < budget_;
}

void Pager::pin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block) {
  constexpr std::uint16_t most = std::numeric_limits<std::uint16_t>::max();
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    delist(n);
    Run& r = runs_[n];
    if (r.pins == 0) ++pinned_runs_;
    if (r.pins < most) ++r.pins;
    if (std::uint16_t* own = own_pins(block, n); own != nullptr && *own < most) ++*own;
    enlist(n);
  }
}

void Pager::unpin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block) {
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    std::uint16_t* own = own_pins(block, n);
    if (own != nullptr && *own == 0) continue;  // what is pinned there is a neighbour's
    if (own != nullptr) --*own;
    delist(n);
    if (runs_[n].pins > 0 && --runs_[n].pins == 0) --pinned_runs_;
    enlist(n);
  }
}

void Pager::expect_holes(std::uint32_t first_run, std::uint32_t last_run) {
  for (std::uint32_t n = first_run; n <= last_run; ++n)
    if (runs_[n].state == RunState::resident) runs_[n].may_have_holes = true;
}

void Pager::forget(std::uint32_t first_run, std::uint32_t last_run) {
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    const std::uint16_t live = runs_[n].live;
    const std::uint32_t block = runs_[n].block;
    const bool waiting = runs_[n].waiting;
    if (live != 1 || runs_[n].state == RunState::resident || runs_[n].state == RunState::empty) continue;
    detach_block(n);
    attach_block(n, block, block != 0);
    runs_[n].zero_fill = true;
    if (waiting) mover_->wake(run_address(n), run_bytes);  // it faults again, and meets an empty run
  }
}

// What is pinned stays: it may be locked or protected. As in drop_recycled(), nothing is empty that nobody
// watches; what came back while it was not watched is dropped as well.
void Pager::forget_resident(std::uint32_t first_run, std::uint32_t last_run) {
  if (mode_ == Mode::plain) return;
  for (std::uint32_t n = first_run; n <= last_run; ++n) {
    Run& r = runs_[n];
    if (r.state != RunState::resident || r.live != 1 || r.pins > 0) continue;
    if (mover_->watch_again(run_address(n)) != 0) continue;
    if (os::advise(run_address(n), run_bytes, MADV_DONTNEED) != 0) continue;
    become(n, RunState::empty);
    r.zero_fill = true;
    --backed_;
    --data_runs_;
  }
}

}  // namespace terrace::liballoc
