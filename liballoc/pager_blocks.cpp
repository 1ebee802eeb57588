// Blocks come and go. A block lies on whole runs and on parts of runs; a run is live while any block lies
// on it, and its record names a block only where the run is wholly that block's.
//
// The program's threads only note what they did (paging/block_queue.h); who holds the gate reads that here,
// before anything else is decided. A run that is freed while the device works on its frame is let go at once,
// and the transfer goes on for nobody (Pager::Operation). Pins are here because they, too, only put runs on
// lists and take them off.
#include <algorithm>
#include <limits>

#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

void Pager::follow_blocks() {
  for (BlockEvent event; queue_->pop(&event);) {
    switch (event.change) {
      case BlockChange::allocated:
        on_allocate(event);
        break;
      case BlockChange::grown:
        on_extend(event);
        break;
      case BlockChange::freed:
        on_free(event.block);
        break;
    }
  }
}

// With the pins that it has already.
void Pager::know_block(std::uint32_t id, const KnownBlock& block) {
  const KnownBlock before = blocks_[id];
  blocks_[id] = block;
  std::copy_n(before.pins, 2, blocks_[id].pins);
}

void Pager::learn_block(std::uint32_t id, const KnownBlock& block) {
  know_block(id, block);
  attach_run_range(id, block.first, block.granules, false);
}

void Pager::attach_block(std::uint32_t n, std::uint32_t block, bool whole) {
  Run& r = runs_[n];
  delist(n);
  r.block = whole ? block : 0;
  const bool first = r.live++ == 0;
  if (first && r.state == RunState::resident) ++arrivals_;
  if (first) r.frame = none;  // records begin as the kernel's zeroes
  if (first && has_data(r)) ++data_runs_;
  take_hints(n);
  enlist(n);
}

// Off its list: what is cold is put elsewhere.
void Pager::take_hints(std::uint32_t n) {
  Run& r = runs_[n];
  const unsigned hints = r.block != 0 ? blocks_[r.block].hints : 0U;
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
  if (has_data(r)) --data_runs_;
  r.live = 0;
  if (r.pins > 0) let_go_of_pins(n);
  r.heat = r.returns = 0;
  r.trace = TouchTrace{};
  r.page_out = r.waiting = r.cold = r.long_lived = r.scattered = r.streamed = r.held = r.from_read = false;
  if (r.state == RunState::lost) {
    r.state = mover_->heal(run_address(n)) == 0 ? RunState::empty : RunState::lost;
    return;
  }
  let_go_of_transfers(n, true);  // what the device works on goes on for nobody
  if (r.frame != none) release_frame(r.frame);
  r.frame = none;
  release_slot(r);
  pages_[n].in_frame = pages_[n].stored = PageSet{};
  r.state = pages_[n].in_place.is_empty() ? RunState::empty : RunState::resident;
  enlist(n);
}

void Pager::own_whole(std::uint32_t n, std::uint32_t block) {
  delist(n);
  runs_[n].block = block;
  take_hints(n);
  enlist(n);
}

void Pager::on_allocate(const BlockEvent& event) {
  blocks_[event.block] = {
      .call_site = event.call_site, .first = event.first, .granules = event.granules, .hints = event.hints};
  attach_run_range(event.block, event.first, event.granules, event.zeroed);
  if (client_ != nullptr) {
    client_->push(
        {.time_ns = os::now_ns(),
         .address = reinterpret_cast<std::uintptr_t>(base_ + std::size_t{event.first} * granule_bytes),
         .call_site = event.call_site,
         .bytes = std::uint64_t{event.granules} * granule_bytes,
         .kind = wire::EventKind::alloc});
  }
}

void Pager::on_extend(const BlockEvent& event) {
  KnownBlock& b = blocks_[event.block];
  b.granules += event.granules;
  // What was its last run is an inner one now.
  if ((event.first - 1) / granules_per_run != b.last_run()) b.pins[1] = 0;
  attach_run_range(event.block, event.first, event.granules, event.zeroed);
}

// From the last run to the first, so that a block's runs leave from its end and, brought back in the reverse
// order, return from its beginning. `zeroed`: whole runs that are empty read as zeroes when they are first
// touched.
void Pager::attach_run_range(std::uint32_t id, std::uint32_t first, std::uint32_t granules, bool zeroed) {
  const KnownBlock& b = blocks_[id];
  const std::uint32_t begin = first / granules_per_run;
  const std::uint32_t end = (first + granules - 1) / granules_per_run + 1;
  top_run_ = std::max(top_run_, end);
  const std::uint32_t head = first % granules_per_run * (granule_bytes / os::page_bytes);
  runs_[begin].head = static_cast<std::uint16_t>(first == b.first ? head : 0);
  for (std::uint32_t n = end; n-- > begin;) {
    if (n != begin) runs_[n].head = 0;
    const bool whole = n * granules_per_run >= b.first && (n + 1) * granules_per_run <= b.end();
    // A block that grows inside a run it already has does not count twice.
    if (first != b.first && n == begin && first % granules_per_run != 0 && runs_[n].live > 0) {
      if (whole) own_whole(n, id);
      continue;
    }
    if (whole && runs_[n].live == 0) runs_[n].zero_fill = zeroed && runs_[n].state == RunState::empty;
    attach_block(n, id, whole);
  }
  phase_.update(data_runs_, reserve_runs());
}

void Pager::on_free(std::uint32_t id) {
  const KnownBlock b = blocks_[id];
  for (std::uint32_t n = b.first_run(); n <= b.last_run(); ++n) {
    if (runs_[n].live > 1) let_go_of_own_pins(id, n);
    detach_block(n);
  }
  blocks_[id] = KnownBlock{};
  for (std::uint32_t n = b.first_run(); n <= b.last_run(); ++n) drop_small(n);
  phase_.update(data_runs_, reserve_runs());
  if (client_ != nullptr) {
    client_->push({.time_ns = os::now_ns(),
                   .address = reinterpret_cast<std::uintptr_t>(base_ + std::size_t{b.first} * granule_bytes),
                   .call_site = b.call_site,
                   .bytes = std::uint64_t{b.granules} * granule_bytes,
                   .kind = wire::EventKind::free});
  }
}

// Freed memory in small pages is not used again where it is: what comes there next gets a huge page.
void Pager::drop_small(std::uint32_t n) {
  const Run& r = runs_[n];
  if (mode_ == Mode::paging && r.small && r.live == 0 && r.state == RunState::resident) drop_recycled(n);
}

// While no notes are taken: the runs at either end may be shared, and only the block's part of them is let go
// of.
void Pager::let_go_of_block(std::uint32_t id) {
  if (is_paging()) return;  // with the note of its end
  const KnownBlock& b = blocks_[id];
  if (b.granules == 0) return;
  for (std::uint32_t n = b.first_run(); n <= b.last_run(); ++n) {
    const bool is_inner = n * granules_per_run >= b.first && (n + 1) * granules_per_run <= b.end();
    if (!is_inner) {
      let_go_of_own_pins(id, n);
    } else if (runs_[n].pins > 0) {
      let_go_of_pins(n);
    }
  }
  blocks_[id] = KnownBlock{};
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
  if (block == 0 || blocks_[block].granules == 0) return nullptr;
  KnownBlock& b = blocks_[block];
  if (n == b.first / granules_per_run) return &b.pins[0];
  return n == (b.first + b.granules - 1) / granules_per_run ? &b.pins[1] : nullptr;
}

// The same for a block that leaves a run to its neighbours, whose pins and pages stay as they are.
void Pager::let_go_of_own_pins(std::uint32_t block, std::uint32_t n) {
  const KnownBlock& b = blocks_[block];
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
  const bool has_budget = mode_ == Mode::paging || mode_ == Mode::dormant;
  return !has_budget || more == 0 || pinned_runs_ + more + left_to_page_with < budget_;
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

}  // namespace terrace::liballoc
