#include "liballoc/paging/transfers/fork_ledger.h"

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {

int ForkLedger::initialise() {
  held_ = static_cast<Held*>(os::map_anonymous(most_held * sizeof(Held), PROT_READ | PROT_WRITE));
  return held_ == nullptr ? ENOMEM : 0;
}

int ForkLedger::begin() {
  int ends[2];
  if (child_count_ == most_children) return EMFILE;
  if (syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK) != 0) return errno;
  pipe_read_ = keep_descriptor(ends[0]);
  pipe_write_ = keep_descriptor(ends[1]);
  return 0;
}

void ForkLedger::end_in_parent(bool child_exists) {
  close_kept(pipe_write_);
  if (pipe_read_ >= 0 && child_exists) children_[child_count_++] = {pipe_read_, epoch_};
  if (!child_exists) close_kept(pipe_read_);
  if (pipe_read_ < 0 && child_exists) immortal_epoch_ = epoch_;
  pipe_read_ = pipe_write_ = -1;
  ++epoch_;
}

// The writing end stays open, untouched, until the child exits or calls exec.
void ForkLedger::end_in_child() {
  close_kept(pipe_read_);
  for (std::uint32_t i = 0; i < child_count_; ++i) close_kept(children_[i].fd);
  pipe_read_ = pipe_write_ = -1;
  child_count_ = 0;
  held_count_ = 0;
}

bool ForkLedger::is_seen(std::uint32_t taken, std::uint32_t released) const {
  if (immortal_epoch_ != 0 && taken <= immortal_epoch_) return true;
  for (std::uint32_t i = 0; i < child_count_; ++i) {
    if (taken <= children_[i].epoch && children_[i].epoch < released) return true;
  }
  return false;
}

bool ForkLedger::may_release(const tiers::Extent& extent, std::uint32_t taken_in_epoch) {
  if (!is_seen(taken_in_epoch, epoch_)) return true;
  // Beyond the table's end the extent is simply never reused: safe, and bounded by the pool's size.
  if (held_count_ < most_held) held_[held_count_++] = {extent, taken_in_epoch, epoch_};
  return false;
}

std::size_t ForkLedger::watched(int* fds, std::size_t most) const {
  std::size_t n = 0;
  for (; n < child_count_ && n < most; ++n) fds[n] = children_[n].fd;
  return n;
}

void ForkLedger::child_gone(int fd) {
  for (std::uint32_t i = 0; i < child_count_; ++i) {
    if (children_[i].fd != fd) continue;
    close_kept(fd);
    children_[i] = children_[--child_count_];
    scan_ = 0;
    return;
  }
}

bool ForkLedger::next_released(tiers::Extent* extent) {
  while (scan_ < held_count_) {
    const Held held = held_[scan_];
    if (is_seen(held.taken, held.released)) {
      ++scan_;
      continue;
    }
    held_[scan_] = held_[--held_count_];
    *extent = held.extent;
    return true;
  }
  return false;
}

}  // namespace terrace::liballoc
