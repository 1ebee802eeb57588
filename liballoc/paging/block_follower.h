// Blocks come and go. A block lies on whole runs and on parts of runs; a run is live while any block lies
// on it, and its record names a block only where the run is wholly that block's.
//
// The program's threads only note what they did (block_queue.h); who holds the gate reads that here, before
// anything else is decided. A run that is freed while the device works on its frame is let go at once, and
// the transfer goes on for nobody (TierOperation).
#pragma once

#include <cstdint>

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/block_queue.h"
#include "liballoc/paging/memory/frames.h"
#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/mover/mover.h"
#include "liballoc/paging/pin_table.h"
#include "liballoc/paging/policy/policy.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/standing.h"
#include "liballoc/paging/step_clock.h"
#include "liballoc/paging/transfers/extents.h"
#include "liballoc/paging/transfers/operations.h"

namespace terrace::liballoc {

class BlockFollower {
 public:
  struct Parts {
    RunTable& runs;
    BlockTable& blocks;
    Frames& frames;
    Extents& extents;
    OperationTable& operations;
    Placement& placement;
    PinTable& pins;
    Accounts& accounts;
    Policy& policy;
    StepClock& clock;
    const Standing& standing;
  };
  constexpr explicit BlockFollower(const Parts& parts) : parts_(parts) {}
  void use(BlockQueue* queue) { queue_ = queue; }
  void use(Mover* mover) { mover_ = mover; }

  // Reads all notes.
  void follow();
  bool has_read_all() const { return queue_->is_empty(); }
  // A block that was there when notes began to be taken.
  void learn(std::uint32_t id, const KnownBlock& block);
  // While none are taken: a block of which something is to be pinned, and when it is about to be freed.
  void know(std::uint32_t id, const KnownBlock& block);
  void let_go(std::uint32_t id);
  const std::byte* end_of(std::uint32_t id) const {
    return parts_.runs.heap().granule(parts_.blocks[id].end());
  }

 private:
  void on_allocate(const BlockEvent& event);
  void on_extend(const BlockEvent& event);
  void on_free(std::uint32_t id);
  void attach_range(std::uint32_t id, std::uint32_t first, std::uint32_t granules, bool zeroed);
  void attach(std::uint32_t n, std::uint32_t block, bool whole);
  void own_whole(std::uint32_t n, std::uint32_t block);
  void take_hints(Run& r);
  void detach(std::uint32_t n);
  void let_go_of_content(std::uint32_t n);
  void drop_small(std::uint32_t n);

  Parts parts_;
  BlockQueue* queue_ = nullptr;
  Mover* mover_ = nullptr;
};

}  // namespace terrace::liballoc
