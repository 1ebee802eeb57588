// From "what is kept when" to a schedule.
//
// Checkmate's view of a step (Jain et al., MLSys 2020, section 4): stage t ends with the first run of
// operation t. S[t][s] says that storage s is kept from stage t - 1 into stage t. Given S, the least
// recomputation follows (the second stage of Checkmate's rounding): stage t runs operation t, what makes the
// storages that are kept into stage t + 1 but were not into t, and whatever these read that was not kept, in
// the order of the step.
//
//             s0 s1 s2 s3      stage 3 runs operation 3, which reads s0 and s2. s2 was not kept: its maker
//     S[3]     1  0  0  -      runs before, and that of s1, which it reads.
//     S[4]     0  0  1  1      s0 is freed after its last reader in the stage, s2 is not.
//
// Constants count as kept always, and S after the last stage is what the step keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/schedule.h"

namespace terrace::planner::recompute {

class Stages {
 public:
  // Keeps nothing. `step` must outlive it.
  explicit Stages(const Step& step);

  void keep(std::uint32_t stage, std::uint32_t storage) { kept_[stage][storage] = true; }
  // Into the stages first, ..., last; nothing where last < first.
  void keep_between(std::uint32_t storage, std::uint32_t first, std::uint32_t last);
  // From its maker to its last reader, or to the end where the step keeps it.
  void keep_to_last_reader(std::uint32_t storage);

  // Time: operations^2 / 2 and what runs. A storage that is kept before it can have been made does not count.
  [[nodiscard]] Schedule schedule() const;

 private:
  [[nodiscard]] bool kept(std::uint32_t stage, std::uint32_t storage) const;
  [[nodiscard]] std::vector<std::uint32_t> runs_of(std::uint32_t stage) const;
  void add_stage(std::uint32_t stage, Schedule* schedule) const;

  const Step& step_;
  std::vector<std::vector<bool>> kept_;  // one row more than operations
};

}  // namespace terrace::planner::recompute
