// Where the results of a run lie, when bytes in a row are needed: the addresses below the budget that the
// constants leave, which lie in a row of their own.
//
// While an operation runs, each of its results has a block, also one that is there already (the double goes
// at the operation's end), and its workspace has one. The log is what check_addresses() looks at.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/dtr/addresses.h"
#include "daemon/planner/recompute/step.h"

namespace terrace::planner::recompute {

class Placing {
 public:
  // `partitioned`: what costs more for its bytes than the step does for all of its results goes to the high
  // end of a free block, everything else to the low end. `step` must outlive it. The constants must fit.
  Placing(const Step& step, std::uint64_t budget_bytes, bool partitioned);

  // For a result of the operation, or its workspace (`nothing`), while it runs: false where no free block is
  // large enough. `again`: the result is there, and this is its double.
  bool take(std::uint32_t operation, std::uint32_t result, bool again);
  // The operation has ended: workspace and doubles go.
  void end_run();
  void evicted(std::uint32_t storage);
  [[nodiscard]] const Addresses& addresses() const { return addresses_; }
  // Begins of blocks in the order in which they were taken; of 0 bytes: none.
  [[nodiscard]] std::vector<std::uint64_t> take_log() { return std::move(log_); }

 private:
  [[nodiscard]] End end_for(std::uint32_t operation) const;

  const Step& step_;
  Addresses addresses_;
  bool partitioned_;
  double cost_per_byte_;                // of the step
  std::vector<std::uint64_t> begin_;    // per storage that is there
  std::vector<std::uint64_t> passing_;  // blocks that end with the run
  std::vector<std::uint64_t> log_;
};

}  // namespace terrace::planner::recompute
