// Which extents of the pool a forked child may still read, and when the last such child has gone.
//
// A child inherits the parent's run table and pool file and reads evicted runs from the very same extents, so
// an extent that the parent is done with must keep its bytes until every child forked while it was in use has
// exited or called exec. Each fork opens a pipe, close-on-exec: the child (and its own children) hold the
// writing end, the parent polls the reading end; its hang-up is the news.
//
//   epoch            1        2        3            the extent taken in epoch 1 and released in 3 must
//   extent A    ─────●━━━━━━━━━━━━━━━━━○            outlive the children of forks 2 (and 1, if the
//   forks            │child 1 │child 2 │child 3     extent existed then); child 3 never saw it
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/tier.h"

namespace terrace::liballoc {

class ForkLedger {
 public:
  static constexpr std::uint32_t most_children = 256;

  int initialise();
  // Before fork: opens the pipe. EMFILE and the like: extents in use now are then held for good.
  int begin();
  // After fork: in the parent (child_exists says whether fork succeeded) and in the child.
  void end_in_parent(bool child_exists);
  void end_in_child();

  // Stamp for an extent taken now.
  std::uint32_t epoch() const { return epoch_; }
  // May the extent be given back to the tier now? If not, it is noted and comes out of next_released() later.
  bool may_release(const tiers::Extent& extent, std::uint32_t taken_in_epoch);

  // Whether a child may still read an extent that was taken then, so that its bytes must stay.
  bool is_read_by_child(std::uint32_t taken_in_epoch) const { return is_seen(taken_in_epoch, epoch_); }

  // Descriptors to poll for hang-up; returns how many were written to `fds`.
  std::size_t watched(int* fds, std::size_t most) const;
  // A descriptor reported a hang-up: forgets that child.
  void child_gone(int fd);
  // Extents that no child can read any more, one at a time. False when there is none.
  bool next_released(tiers::Extent* extent);
  bool has_children() const { return child_count_ > 0; }
  // A child may read what was there when it was forked, or nobody would know if none did.
  bool may_be_read() const { return has_children() || immortal_epoch_ > 0; }

 private:
  struct Child {
    int fd;
    std::uint32_t epoch;
  };
  struct Held {
    tiers::Extent extent;
    std::uint32_t taken;
    std::uint32_t released;
  };
  static constexpr std::size_t most_held = 1U << 20;
  bool is_seen(std::uint32_t taken, std::uint32_t released) const;

  Child children_[most_children] = {};
  std::uint32_t child_count_ = 0;
  std::uint32_t epoch_ = 1;
  std::uint32_t immortal_epoch_ = 0;  // extents up to this epoch are held for good
  int pipe_read_ = -1;
  int pipe_write_ = -1;
  Held* held_ = nullptr;
  std::size_t held_count_ = 0;
  std::size_t scan_ = 0;
};

}  // namespace terrace::liballoc
