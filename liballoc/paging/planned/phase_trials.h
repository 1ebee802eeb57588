// How steps of each phase went with its plan and without (plan_trial.h): of the phases that were used last.
// Belongs to who holds the gate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/paging/planned/plan_trial.h"

namespace terrace::liballoc {

class PhaseTrials {
 public:
  static constexpr std::uint32_t most = 4;

  // The phase's trial, which begins where it is not known. Good until another phase is asked for.
  PlanTrial& of(std::uint32_t phase) {
    Entry* oldest = &entries_[0];
    for (Entry& entry : entries_) {
      if (entry.phase == phase && phase != 0) return touch(entry);
      if (entry.used_at < oldest->used_at) oldest = &entry;
    }
    *oldest = Entry();
    oldest->phase = phase;
    return touch(*oldest);
  }
  // A plan of the phase comes into force, which was made for so large a budget.
  void take_plan(std::uint32_t phase, std::uint64_t budget_bytes) {
    PlanTrial& trial = of(phase);
    for (Entry& entry : entries_) {
      if (&entry.trial != &trial) continue;
      const std::uint64_t before = entry.budget_bytes;
      const std::uint64_t change = std::max(before, budget_bytes) - std::min(before, budget_bytes);
      trial.take_plan(before == 0 || change <= before / like);
      entry.budget_bytes = budget_bytes;
    }
  }

 private:
  static constexpr std::uint64_t like = 20;  // budgets that differ by one part in so many are the same

  struct Entry {
    std::uint32_t phase = 0;
    std::uint64_t used_at = 0;
    std::uint64_t budget_bytes = 0;
    PlanTrial trial;
  };
  PlanTrial& touch(Entry& entry) {
    entry.used_at = ++uses_;
    return entry.trial;
  }

  Entry entries_[most];
  std::uint64_t uses_ = 0;
};

}  // namespace terrace::liballoc
