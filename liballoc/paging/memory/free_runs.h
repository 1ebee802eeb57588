// The agent's way to free memory: runs on which no block lies are claimed from the address space before they
// are worked on, so that no thread is given one meanwhile, and go back to it afterwards.
//
// The lock may be held by a thread that was interrupted by a signal whose handler waits for the agent. So the
// agent does not wait for it: what cannot be had now is had later, or elsewhere.
#pragma once

#include <cstdint>

#include "liballoc/base/lock.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

class FreeRuns {
 public:
  constexpr FreeRuns(Lock* lock, AddressSpace* space) : lock_(lock), space_(space) {}

  // False: a block lies on the run, or the lock is not to be had.
  bool claim(std::uint32_t run) {
    if (count_ == most || !lock_->try_lock_for_a_while()) return false;
    return_claimed();
    claimed_[count_].id = space_->claim(run * granules_per_run, granules_per_run);
    const bool done = claimed_[count_].id != 0;
    count_ += done ? 1 : 0;
    lock_->unlock();
    return done;
  }
  // Of the run that was claimed last: whether it has no memory any more.
  void give_back(bool without_memory) {
    claimed_[count_ - 1].is_virgin = without_memory;
    if (!lock_->try_lock_for_a_while()) return;  // with the next one
    return_claimed();
    lock_->unlock();
  }

 private:
  struct Claimed {
    std::uint32_t id;
    bool is_virgin;
  };
  static constexpr std::uint32_t most = 64;

  void return_claimed() {
    while (count_ > 0) {
      --count_;
      space_->free(claimed_[count_].id, claimed_[count_].is_virgin);
    }
  }

  Lock* lock_;
  AddressSpace* space_;
  Claimed claimed_[most] = {};
  std::uint32_t count_ = 0;
};

}  // namespace terrace::liballoc
