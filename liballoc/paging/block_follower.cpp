#include "liballoc/paging/block_follower.h"

#include <algorithm>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

void BlockFollower::follow() {
  for (BlockEvent event; queue_->pop(&event);) {
    if (event.change == BlockChange::marked) {
      parts_.clock.on_mark(event);
      continue;
    }
    const bool is_grown = event.change == BlockChange::grown;
    parts_.clock.on_block(event, event.granules + (is_grown ? parts_.blocks[event.block].granules : 0));
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
      case BlockChange::marked:
        break;
    }
  }
}

// With the pins that it has already.
void BlockFollower::know(std::uint32_t id, const KnownBlock& block) {
  const KnownBlock before = parts_.blocks[id];
  parts_.blocks[id] = block;
  std::copy_n(before.pins, 2, parts_.blocks[id].pins);
}

void BlockFollower::learn(std::uint32_t id, const KnownBlock& block) {
  know(id, block);
  attach_range(id, block.first, block.granules, false);
}

// The runs at either end may be shared, and only the block's part of them is let go of.
void BlockFollower::let_go(std::uint32_t id) {
  if (parts_.standing.is_paging()) return;  // with the note of its end
  const KnownBlock& b = parts_.blocks[id];
  if (b.granules == 0) return;
  for (std::uint32_t n = b.first_run(); n <= b.last_run(); ++n) {
    const bool is_inner = n * granules_per_run >= b.first && (n + 1) * granules_per_run <= b.end();
    is_inner ? parts_.pins.let_go(n) : parts_.pins.let_go_of_own(id, n);
  }
  parts_.blocks[id] = KnownBlock{};
}

// ---- blocks that come -------------------------------------------------------------------------------------

void BlockFollower::on_allocate(const BlockEvent& event) {
  KnownBlock& b = parts_.blocks[event.block];
  b = {.call_site = event.call_site, .first = event.first, .granules = event.granules, .hints = event.hints};
  attach_range(event.block, event.first, event.granules, event.zeroed);
  parts_.accounts.tell_block(wire::EventKind::alloc, b);
}

void BlockFollower::on_extend(const BlockEvent& event) {
  KnownBlock& b = parts_.blocks[event.block];
  b.granules += event.granules;
  // What was its last run is an inner one now.
  if ((event.first - 1) / granules_per_run != b.last_run()) b.pins[1] = 0;
  attach_range(event.block, event.first, event.granules, event.zeroed);
}

// From the last run to the first, so that a block's runs leave from its end and, brought back in the reverse
// order, return from its beginning. `zeroed`: whole runs that are empty read as zeroes when they are first
// touched.
void BlockFollower::attach_range(std::uint32_t id, std::uint32_t first, std::uint32_t granules, bool zeroed) {
  const KnownBlock& b = parts_.blocks[id];
  const std::uint32_t begin = first / granules_per_run;
  const std::uint32_t end = (first + granules - 1) / granules_per_run + 1;
  parts_.runs.know_top(end);
  const std::uint32_t head = first % granules_per_run * (granule_bytes / os::page_bytes);
  parts_.runs[begin].head = static_cast<std::uint16_t>(first == b.first ? head : 0);
  for (std::uint32_t n = end; n-- > begin;) {
    Run& r = parts_.runs[n];
    if (n != begin) r.head = 0;
    const bool whole = n * granules_per_run >= b.first && (n + 1) * granules_per_run <= b.end();
    // A block that grows inside a run it already has does not count twice.
    if (first != b.first && n == begin && first % granules_per_run != 0 && r.live > 0) {
      if (whole) own_whole(n, id);
      continue;
    }
    if (whole && r.live == 0) r.zero_fill = zeroed && r.state == RunState::empty;
    attach(n, id, whole);
  }
  parts_.policy.on_blocks_changed();
}

void BlockFollower::attach(std::uint32_t n, std::uint32_t block, bool whole) {
  const RunTable::Change change(parts_.runs, n);
  Run& r = parts_.runs[n];
  r.block = whole ? block : 0;
  const bool is_first = r.live++ == 0;
  if (is_first && r.state == RunState::resident) parts_.runs.note_arrival();
  if (is_first) r.frame = none;  // records begin as the kernel's zeroes
  take_hints(r);
}

void BlockFollower::own_whole(std::uint32_t n, std::uint32_t block) {
  const RunTable::Change change(parts_.runs, n);
  parts_.runs[n].block = block;
  take_hints(parts_.runs[n]);
}

void BlockFollower::take_hints(Run& r) {
  const unsigned hints = r.block != 0 ? parts_.blocks[r.block].hints : 0U;
  r.cold = (hints & TERRACE_HINT_COLD) != 0;
  r.long_lived = (hints & TERRACE_HINT_LONG_LIVED) != 0;
  if (r.long_lived) r.heat = most_heat;
}

// ---- blocks that go ---------------------------------------------------------------------------------------

void BlockFollower::on_free(std::uint32_t id) {
  const KnownBlock b = parts_.blocks[id];
  for (std::uint32_t n = b.first_run(); n <= b.last_run(); ++n) {
    if (parts_.runs[n].live > 1) parts_.pins.let_go_of_own(id, n);
    detach(n);
  }
  parts_.blocks[id] = KnownBlock{};
  for (std::uint32_t n = b.first_run(); n <= b.last_run(); ++n) drop_small(n);
  parts_.policy.on_blocks_changed();
  parts_.accounts.tell_block(wire::EventKind::free, b);
}

void BlockFollower::detach(std::uint32_t n) {
  Run& r = parts_.runs[n];
  r.block = 0;
  if (r.live > 1) {
    --r.live;
    return;
  }
  parts_.pins.let_go(n);
  const RunTable::Change change(parts_.runs, n);
  r.live = 0;
  parts_.placement.unstick(r);
  r.heat = r.returns = 0;
  r.trace = TouchTrace{};
  r.lone = LoneTouches{};
  r.page_out = r.waiting = r.cold = r.long_lived = r.held = r.probed = r.from_read = false;
  r.scattered = r.dense = r.was_dirty = r.left_empty = false;
  r.turn = Turn::usual;
  if (r.state == RunState::lost)
    r.state = mover_->heal(parts_.runs.address(n)) == 0 ? RunState::empty : RunState::lost;
  else
    let_go_of_content(n);
}

// What lies elsewhere than in place is nobody's any more; what the device works on goes on for nobody.
void BlockFollower::let_go_of_content(std::uint32_t n) {
  Run& r = parts_.runs[n];
  Pages& p = parts_.runs.pages(n);
  parts_.operations.let_go(r, n, true);
  if (r.frame != none) parts_.frames.release(r.frame);
  r.frame = none;
  parts_.extents.release(r);
  p.in_frame = p.stored = PageSet{};
  r.state = p.in_place.is_empty() ? RunState::empty : RunState::resident;
}

// Freed memory in small pages is not used again where it is: what comes there next gets a huge page.
void BlockFollower::drop_small(std::uint32_t n) {
  const Run& r = parts_.runs[n];
  if (parts_.standing.mode == PagerMode::paging && r.small && r.live == 0 && r.state == RunState::resident)
    parts_.frames.drop_recycled(n);
}

}  // namespace terrace::liballoc
