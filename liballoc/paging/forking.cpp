#include "liballoc/paging/forking.h"

#include <poll.h>

#include <cstring>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t child_frames = 256;

}  // namespace

void Forking::hide_heap(bool from_children) {
  const HeapRange& heap = parts_.runs.heap();
  os::advise(heap.base, heap.bytes(), from_children ? MADV_DONTFORK : MADV_DOFORK);
}

// ---- the parent -------------------------------------------------------------------------------------------

void Forking::prepare(std::uint64_t limit_ns) {
  parts_.placement.unstage_all();
  const std::uint64_t deadline = os::now_ns() + limit_ns;
  while (parts_.standing.mode == PagerMode::paging && parts_.operations.writes() > 0 &&
         os::now_ns() < deadline) {
    pollfd waiting{.fd = parts_.extents.tier().wait_fd(), .events = POLLIN, .revents = 0};
    const timespec pause{0, 200'000};  // what workers compute is over without a sign on this descriptor
    syscall(SYS_ppoll, &waiting, 1, &pause, nullptr, 0);
    parts_.transfers.handle_completions(false);
  }
}

// Whether a child reads from the pool file. A child that is left without a pager has the tier still, and what
// its parent used of it.
bool Forking::shares_pool() const {
  const bool has_stored = parts_.standing.mode == PagerMode::paging && parts_.extents.shared_bytes() > 0;
  return parts_.standing.mode == PagerMode::restore || has_stored;
}

void Forking::seal() {
  parts_.placement.unstage_all();  // a transfer that ended since may have brought some back
  show_frames(true);
  if (parts_.standing.is_paging()) hide_heap(false);
  if (shares_pool()) parts_.extents.note_children(true);
  if (shares_pool() && parts_.extents.forks().begin() != 0) {
    Message(Severity::warning)
        << "no descriptor to watch a forked child with: what is on the pool now stays there";
  }
}

// Frames are kept from forked children, but these hold what lies nowhere else.
void Forking::show_frames(bool to_children) {
  for (const TierOperation& op : parts_.operations.all()) {
    const bool writes = op.kind == TierOperation::Kind::write || op.kind == TierOperation::Kind::fill;
    if (op.busy && writes && op.run != none) show_frame(parts_.runs[op.run].frame, to_children);
  }
  for (std::uint32_t i = 0; i < parts_.line.size(); ++i) {
    const Run& r = parts_.runs[parts_.line.at(i)];
    if (r.stuck) show_frame(r.frame, to_children);
  }
}

void Forking::show_frame(std::uint32_t frame, bool to_children) {
  if (frame != none) to_children ? parts_.staging.expose(frame) : parts_.staging.hide(frame);
}

void Forking::after_in_parent(bool child_exists) {
  show_frames(false);
  if (parts_.standing.is_paging()) hide_heap(true);
  if (!shares_pool()) return;
  parts_.extents.forks().end_in_parent(child_exists);
  parts_.extents.note_children(false);
}

// ---- the child --------------------------------------------------------------------------------------------

bool Forking::after_in_child() {
  parts_.extents.forks().end_in_child();
  Standing& standing = parts_.standing;
  if (!standing.is_paging()) {
    standing.mode = PagerMode::plain;
    return false;
  }
  parts_.runs.forget_lists();
  parts_.budget.start_anew();
  parts_.frames.start_anew();
  for (std::uint32_t n = 0; n < parts_.runs.top(); ++n) adopt_inherited(n);
  parts_.transfers.start_anew();
  parts_.line.clear();
  parts_.placement.start_anew();
  parts_.policy.on_fork();
  parts_.staging.reset_after_fork();
  parts_.accounts.tell_to(nullptr);
  standing.is_locked = false;  // a child inherits no locks
  standing.kernel_swaps = false;
  parts_.budget.leave_to_kernel(false);
  standing.mode = has_something_away() ? PagerMode::restore : PagerMode::plain;
  return standing.mode == PagerMode::restore;
}

bool Forking::has_something_away() const {
  for (std::uint32_t n = 0; n < parts_.runs.top(); ++n)
    if (parts_.runs[n].state != RunState::lost && !parts_.runs.pages(n).away().is_empty()) return true;
  return false;
}

void Forking::adopt_inherited(std::uint32_t n) {
  Run& r = parts_.runs[n];
  Pages& p = parts_.runs.pages(n);
  r.previous = r.next = none;
  r.list = nullptr;
  const bool came_along = r.state == RunState::writing || r.state == RunState::staged;
  if (came_along && r.frame != none) bring_inherited_frame(n);
  p.in_frame = PageSet{};
  r.frame = none;
  r.pieces = 0;
  r.queued = r.waiting = r.from_read = r.page_out = r.stuck = r.held = r.probed = r.in_flight = false;
  r.turn = Turn::usual;
  if (p.away().is_empty()) {
    p.stored = PageSet{};
    r.has_slot = false;
  }
  parts_.budget.gain(p.in_place.count());
  r.state == RunState::lost ? poison_in_child(parts_.runs.address(n)) : parts_.extents.settle(n);
  parts_.runs.adopt(n);
}

// Its frame came along; nobody watches the heap here yet. The whole of it takes the run's place.
void Forking::bring_inherited_frame(std::uint32_t n) {
  Pages& p = parts_.runs.pages(n);
  std::byte* const address = parts_.runs.address(n);
  std::byte* const frame = parts_.frames.address(parts_.runs[n].frame);
  const bool is_whole = p.in_place.is_empty() && p.in_frame.is_all();
  if (is_whole) os::remap_keeping(frame, run_bytes, address);
  for (PageRange range = p.in_frame.next(0); range.count() > 0 && !is_whole;
       range = p.in_frame.next(range.end))
    std::memcpy(address + range.offset(), frame + range.offset(), range.bytes());
  p.in_place |= p.in_frame;
  os::unmap(frame, run_bytes);
}

// A lost run stays lost: no page, no access.
void Forking::poison_in_child(std::byte* run) { os::map_anonymous(run_bytes, PROT_NONE, run); }

int Forking::start_restoring(Mover* mover) {
  if (const int error = parts_.frames.initialise(child_frames, mover); error != 0) return error;
  if (const int error = parts_.extents.tier().reopen_after_fork(); error != 0) return error;
  hide_heap(true);
  return mover->watch(parts_.runs.heap().base, parts_.runs.heap().bytes());
}

void Forking::abandon_stored() {
  for (std::uint32_t n = 0; n < parts_.runs.top(); ++n) {
    if (parts_.runs[n].state == RunState::lost || parts_.runs.pages(n).away().is_empty()) continue;
    parts_.runs.become(n, RunState::lost);
    poison_in_child(parts_.runs.address(n));
  }
  hide_heap(false);
  parts_.standing.mode = PagerMode::plain;
}

}  // namespace terrace::liballoc
