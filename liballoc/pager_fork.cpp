// Fork. The child gets the heap's pages copy-on-write from the kernel, the run table by the same means, and
// the pool file by inheritance; what it does not get is this library's threads, transfers and registrations.
//
//   resident         copied by the kernel
//   stored, cached,  read by the child from the same extent, which the ForkLedger keeps alive
//   reading
//   staged           put back before the fork
//   writing          waited for; what the device does not finish in time is shown to the child in its frame
//
// Evicted runs are MADV_DONTFORK from the moment they leave, so a process made by a bare clone(2), which no
// handler sees, finds a hole and dies of it instead of reading zeroes. The child handler fills the holes.
#include <poll.h>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

void Pager::prepare_fork(std::uint64_t limit_ns) {
  {
    LockGuard guard(*lock_);
    while (!staged_.is_empty()) unstage(staged_.front());
  }
  const std::uint64_t deadline = os::now_ns() + limit_ns;
  while (mode_ == Mode::paging && writes_ > 0 && os::now_ns() < deadline) {
    pollfd waiting{.fd = tier_->wait_fd(), .events = POLLIN, .revents = 0};
    const timespec pause{0, 1'000'000};
    syscall(SYS_ppoll, &waiting, 1, &pause, nullptr, 0);
    handle_completions();
  }
}

// Whether a child reads from the pool file. A child that is left without a pager has the tier still, and what
// its parent used of it.
bool Pager::shares_pool() const {
  return mode_ == Mode::restore || (mode_ == Mode::paging && pool_used_bytes() > 0);
}

void Pager::seal_for_fork() {
  // Another thread may have given advice since.
  while (!staged_.is_empty()) unstage(staged_.front());
  for (const Operation& op : operations_) {
    if (op.busy && op.write && op.run != none) staging_.expose(op.frame);
  }
  show_stuck(true);
  if (some_stay_hidden_) show_what_stayed_hidden();
  if (shares_pool() && forks_.begin() != 0) {
    Message(Severity::warning)
        << "no descriptor to watch a forked child with: what is on the pool now stays there";
  }
}

// Again, since mappings come and go. What the kernel still refuses, the child will miss.
void Pager::show_what_stayed_hidden() {
  some_stay_hidden_ = false;
  std::uint64_t missing = 0;
  for (std::uint32_t n = 0; n * granules_per_run < space_->top(); ++n) {
    const Run& r = runs_[n];
    if (r.state == RunState::resident && r.hidden && !show(n) && r.live > 0) missing += run_bytes;
  }
  if (missing == 0) return;
  Message m(Severity::error);
  m << "a forked child does not get ";
  m.bytes(missing) << " that are in DRAM, as the kernel refuses (more mappings than vm.max_map_count?); "
                      "touching them ends it with SIGSEGV";
}

void Pager::after_fork_in_parent(bool child_exists) {
  for (const Operation& op : operations_) {
    if (op.busy && op.write && op.run != none) staging_.hide(op.frame);
  }
  show_stuck(false);
  if (shares_pool()) forks_.end_in_parent(child_exists);
}

bool Pager::after_fork_in_child() {
  forks_.end_in_child();
  if (mode_ == Mode::plain) return false;
  const std::uint32_t runs = (space_->top() + granules_per_run - 1) / granules_per_run;
  for (RunList* list : {&idle_, &recycled_, &staged_, &cached_, &loaded_, &stored_}) {
    *list = RunList{};
    list->attach(runs_);
  }
  backed_ = data_runs_ = used_frames_ = 0;
  for (std::uint32_t n = 0; n < runs; ++n) adopt_inherited(n);
  for (Operation& op : operations_) op = Operation{};
  writes_ = reads_ = pending_count_ = stuck_runs_ = 0;
  cursor_block_ = 0;
  staging_.reset_after_fork();
  client_ = nullptr;
  evicts_ = true;  // a child inherits no locks
  mode_ = stored_.is_empty() ? Mode::plain : Mode::restore;
  return mode_ == Mode::restore;
}

void Pager::adopt_inherited(std::uint32_t n) {
  Run& r = runs_[n];
  std::byte* address = run_address(n);
  r.queued = r.waiting = r.from_read = r.page_out = r.stuck = false;
  r.previous = r.next = none;
  bool stays_hidden = false;
  // The kernel did not let it come along (show_what_stayed_hidden).
  if (r.state == RunState::resident && r.hidden) r.state = r.live > 0 ? RunState::lost : RunState::empty;
  if (r.state == RunState::writing || r.state == RunState::staged) {
    // Its frame came along; the hole in the heap takes the frame's pages.
    os::remap_keeping(staging_.address(r.frame), run_bytes, address);
    stays_hidden = !show(n);
    os::unmap(staging_.address(r.frame), run_bytes);
    r.state = RunState::resident;
    r.has_slot = false;
  } else if (r.hidden && os::map_anonymous(run_bytes, PROT_READ | PROT_WRITE, address) != nullptr) {
    os::advise(address, run_bytes, MADV_HUGEPAGE);
  }
  r.hidden = stays_hidden;
  r.frame = none;
  if (r.state == RunState::cached || r.state == RunState::reading) r.state = RunState::stored;
  // As in the parent: whom this process makes by a bare clone finds a hole.
  if (r.state == RunState::stored) r.hidden = os::advise(address, run_bytes, MADV_DONTFORK) == 0;
  if (r.state == RunState::lost) mover_poison_in_child(address);
  // Without a pager (nothing stored) the kernel backs empty runs; with one the agent does.
  if (r.state == RunState::resident) ++backed_;
  if (r.live > 0 && r.state != RunState::empty) ++data_runs_;
  enlist(n);
}

// A lost run stays lost: no page, no access.
void Pager::mover_poison_in_child(std::byte* address) { os::map_anonymous(run_bytes, PROT_NONE, address); }

int Pager::start_restoring(Mover* mover) {
  mover_ = mover;
  if (const int error = staging_.initialise(child_frames, mover); error != 0) return error;
  if (const int error = tier_->reopen_after_fork(); error != 0) return error;
  return mover->watch(base_, std::size_t{run_count_} * run_bytes);
}

void Pager::abandon_stored() {
  while (!stored_.is_empty()) {
    const std::uint32_t n = stored_.front();
    become(n, RunState::lost);
    mover_poison_in_child(run_address(n));
  }
  mode_ = Mode::plain;
}

void Pager::release_unread_extents() {
  tiers::Extent extent;
  while (forks_.next_released(&extent)) give_back(extent);
}

}  // namespace terrace::liballoc
