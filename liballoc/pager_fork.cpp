// Fork. The child gets the heap's pages copy-on-write from the kernel, the run and page tables by the same
// means, and the pool file by inheritance; what it does not get is this library's threads, transfers and
// registrations.
//
//   in place         copied by the kernel
//   stored           read by the child from the same extent, which the ForkLedger keeps alive
//   staged           put back before the fork
//   writing          waited for; what the device does not finish in time is shown to the child in its frame
//
// While paging, the heap is MADV_DONTFORK, but for the moment of a fork: a process made by a bare clone(2),
// which no handler sees, finds a hole and dies of it instead of reading zeroes. One mark on the whole range
// costs one mapping, however many runs are away (vm.max_map_count).
#include <poll.h>

#include <cstring>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

void Pager::prepare_fork(std::uint64_t limit_ns) {
  put_back_what_leaves();
  const std::uint64_t deadline = os::now_ns() + limit_ns;
  while (mode_ == Mode::paging && writes_ > 0 && os::now_ns() < deadline) {
    pollfd waiting{.fd = tier_->wait_fd(), .events = POLLIN, .revents = 0};
    const timespec pause{0, 1'000'000};
    syscall(SYS_ppoll, &waiting, 1, &pause, nullptr, 0);
    handle_completions();
  }
}

void Pager::put_back_what_leaves() {
  while (!staged_.is_empty() && unstage(staged_.front())) continue;
  while (!held_.is_empty() && unstage(held_.front())) continue;
}

// Whether a child reads from the pool file. A child that is left without a pager has the tier still, and what
// its parent used of it.
bool Pager::shares_pool() const {
  return mode_ == Mode::restore || (mode_ == Mode::paging && pool_used_bytes() > 0);
}

void Pager::seal_for_fork() {
  put_back_what_leaves();  // a transfer that ended since may have brought some back
  show_frames(true);
  if (is_paging()) hide_heap(false);
  if (shares_pool() && forks_.begin() != 0) {
    Message(Severity::warning)
        << "no descriptor to watch a forked child with: what is on the pool now stays there";
  }
}

// Frames are kept from forked children, but these hold what lies nowhere else.
void Pager::show_frames(bool to_children) {
  const auto show = [&](std::uint32_t frame) {
    if (frame != none) to_children ? staging_.expose(frame) : staging_.hide(frame);
  };
  for (const Operation& op : operations_) {
    const bool writes = op.kind == Operation::Kind::write || op.kind == Operation::Kind::fill;
    if (op.busy && writes && op.run != none) show(runs_[op.run].frame);
  }
  show_stuck(to_children);
}

void Pager::after_fork_in_parent(bool child_exists) {
  show_frames(false);
  if (is_paging()) hide_heap(true);
  if (shares_pool()) forks_.end_in_parent(child_exists);
}

bool Pager::after_fork_in_child() {
  forks_.end_in_child();
  if (!is_paging()) {
    mode_ = Mode::plain;
    return false;
  }
  for (RunList* list : lists()) {
    *list = RunList{};
    list->attach(runs_);
  }
  backed_pages_ = cached_pages_ = held_pages_ = 0;
  data_runs_ = used_frames_ = 0;
  for (std::uint32_t n = 0; n < top_run_; ++n) adopt_inherited(n);
  for (Operation& op : operations_) op = Operation{};
  writes_ = reads_ = pieces_ = pending_count_ = stuck_runs_ = 0;
  some_are_stalled_ = false;
  cursor_block_ = 0;
  ahead_.clear();
  staging_.reset_after_fork();
  client_ = nullptr;
  evicts_ = true;  // a child inherits no locks
  mode_ = has_something_away() ? Mode::restore : Mode::plain;
  return mode_ == Mode::restore;
}

bool Pager::has_something_away() const {
  for (std::uint32_t n = 0; n < top_run_; ++n)
    if (runs_[n].state != RunState::lost && !pages_[n].away().is_empty()) return true;
  return false;
}

void Pager::adopt_inherited(std::uint32_t n) {
  Run& r = runs_[n];
  Pages& p = pages_[n];
  std::byte* const address = run_address(n);
  r.previous = r.next = none;
  r.list = nullptr;
  if ((r.state == RunState::writing || r.state == RunState::staged) && r.frame != none) {
    // Its frame came along; nobody watches the heap here yet. The whole of it takes the run's place.
    const bool is_whole = p.in_place.is_empty() && p.in_frame.is_all();
    if (is_whole) os::remap_keeping(staging_.address(r.frame), run_bytes, address);
    for (PageRange range = p.in_frame.next(0); range.count() > 0 && !is_whole;
         range = p.in_frame.next(range.end))
      std::memcpy(address + range.offset(), staging_.address(r.frame) + range.offset(), range.bytes());
    p.in_place |= p.in_frame;
    os::unmap(staging_.address(r.frame), run_bytes);
  }
  p.in_frame = PageSet{};
  r.frame = none;
  r.pieces = 0;
  r.queued = r.waiting = r.from_read = r.page_out = r.stuck = r.held = r.in_flight = r.streamed = false;
  if (p.away().is_empty()) {
    p.stored = PageSet{};
    r.has_slot = false;
  }
  backed_pages_ += p.in_place.count();
  if (r.state == RunState::lost) {
    data_runs_ += has_data(r) ? 1 : 0;
    return mover_poison_in_child(address);
  }
  const bool is_empty = p.are_nowhere();
  if (is_empty) r.zero_fill = true;
  r.state = is_empty ? RunState::empty : p.in_place.is_empty() ? RunState::stored : RunState::resident;
  data_runs_ += has_data(r) ? 1 : 0;
  enlist(n);
}

// A lost run stays lost: no page, no access.
void Pager::mover_poison_in_child(std::byte* address) { os::map_anonymous(run_bytes, PROT_NONE, address); }

int Pager::start_restoring(Mover* mover) {
  mover_ = mover;
  if (const int error = staging_.initialise(child_frames, mover); error != 0) return error;
  if (const int error = tier_->reopen_after_fork(); error != 0) return error;
  hide_heap(true);
  return mover->watch(base_, std::size_t{run_count_} * run_bytes);
}

void Pager::abandon_stored() {
  for (std::uint32_t n = 0; n < top_run_; ++n) {
    if (runs_[n].state == RunState::lost || pages_[n].away().is_empty()) continue;
    become(n, RunState::lost);
    mover_poison_in_child(run_address(n));
  }
  hide_heap(false);
  mode_ = Mode::plain;
}

void Pager::release_unread_extents() {
  tiers::Extent extent;
  while (forks_.next_released(&extent)) give_back(extent);
}

}  // namespace terrace::liballoc
