// Fork. The child gets the heap's pages copy-on-write from the kernel, the run and page tables by the same
// means, and the pool file by inheritance; what it does not get is this library's threads, transfers and
// registrations.
//
//   in place         copied by the kernel
//   stored           read by the child from the same extent, which the ForkLedger keeps alive
//   staged           put back before the fork
//   writing          waited for; what device and workers do not finish in time is shown to the child in its
//                    frame
//
// While paging, the heap is MADV_DONTFORK, but for the moment of a fork: a process made by a bare clone(2),
// which no handler sees, finds a hole and dies of it instead of reading zeroes. One mark on the whole range
// costs one mapping, however many runs are away (vm.max_map_count).
#pragma once

#include <cstdint>

#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {

class Forking {
 public:
  struct Parts {
    RunTable& runs;
    Staging& staging;
    MemoryBudget& budget;
    Frames& frames;
    Extents& extents;
    OperationTable& operations;
    Placement& placement;
    Transfers& transfers;
    WaitingLine& line;
    Accounts& accounts;
    Policy& policy;
    Standing& standing;
  };
  constexpr explicit Forking(const Parts& parts) : parts_(parts) {}

  // Nothing is left half written if the device allows within `limit_ns`.
  void prepare(std::uint64_t limit_ns);
  // From here to after_in_*() nobody frees or allocates, either: what the child will find does not change.
  void seal();
  void after_in_parent(bool child_exists);
  // True when runs are evicted, so that the child needs an agent of its own.
  bool after_in_child();
  int start_restoring(Mover* mover);
  // No agent is to be had: what is evicted becomes inaccessible rather than wrong.
  void abandon_stored();
  // Whom this process makes by a bare clone(2) finds a hole, not zeroes in place of what is away.
  void hide_heap(bool from_children);

 private:
  bool shares_pool() const;
  void show_frames(bool to_children);
  void show_frame(std::uint32_t frame, bool to_children);
  bool has_something_away() const;
  void adopt_inherited(std::uint32_t n);
  void bring_inherited_frame(std::uint32_t n);
  static void poison_in_child(std::byte* run);

  Parts parts_;
};

}  // namespace terrace::liballoc
