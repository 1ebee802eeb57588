// The policy that a schedule rules. What the schedule names leaves and returns when it says; the reactive
// policy goes on learning, and rules where there is none to follow.
//
// While one is followed, nothing leaves ahead of need and nothing is read on a guess: the plan has looked at
// the whole step and a guess would take the link from it. Memory that is needed now and that the plan did not
// provide is taken from what the plan needs last; what will be freed before its next use goes last of all,
// since its way out would be for nothing (docs/decisions/052). Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/planned/next_uses.h"
#include "liballoc/paging/planned/plan_follower.h"
#include "liballoc/paging/policy/policy.h"
#include "liballoc/paging/policy/reactive_policy.h"
#include "liballoc/paging/step_clock.h"

namespace terrace::liballoc {

class PlannedPolicy final : public Policy, public StepListener {
 public:
  constexpr explicit PlannedPolicy(const PolicyParts& parts)
      : parts_(parts), reactive_(parts), plan_(parts) {}
  PlannedPolicy(const PlannedPolicy&) = delete;
  PlannedPolicy& operator=(const PlannedPolicy&) = delete;
  ~PlannedPolicy() = default;
  // 0 or ENOMEM. Numbers of blocks are smaller than `most_blocks`.
  int initialise(std::uint32_t most_blocks);

  // Of what the plan does not name. It outlives the policy.
  void use(NextUses* next_uses) { next_uses_ = next_uses; }

  PlanFollower& plan() { return plan_; }
  const PlanFollower& plan() const { return plan_; }

  void on_step_event(const BlockEvent& event, std::uint32_t granules, const StepPlace& place) override;

  void on_blocks_changed() override { reactive_.on_blocks_changed(); }
  void on_fault(std::uint32_t thread) override { reactive_.on_fault(thread); }
  void on_missing(std::uint32_t n) override {
    reactive_.on_missing(n);
    plan_.on_missing(n);
  }
  void on_use(std::uint32_t n, bool from_tier) override { reactive_.on_use(n, from_tier); }
  void on_recall(std::uint32_t n) override { reactive_.on_recall(n); }
  bool on_return(std::uint32_t n) override { return reactive_.on_return(n); }
  bool is_dense(std::uint32_t n) const override { return reactive_.is_dense(n); }
  bool leaves_last(std::uint32_t n) const override { return reactive_.leaves_last(n); }
  void on_leave(std::uint32_t n) override;
  void on_advice() override { reactive_.on_advice(); }
  void on_fork() override;

  bool wants_eviction() const override;
  Victim next_victim() override;
  std::uint32_t next_release(bool at_once) override;
  bool wants_read_ahead() const override;
  std::uint32_t next_read() override;
  std::uint32_t next_kept() override { return reactive_.next_kept(); }
  std::uint32_t next_return() override { return plan_.returns().next_return(); }
  bool reads_over_cached() const override;
  bool wants_agent() const override;

 private:
  struct LeastNeeded {
    std::uint32_t run = none;
    std::uint32_t events = 0;  // until it is touched
  };

  bool may_evict() const;
  bool is_short() const;
  std::uint32_t in_hand() const;
  Victim least_needed();
  void look_for_least_needed(const RunList& list, LeastNeeded* best);

  PolicyParts parts_;
  ReactivePolicy reactive_;
  PlanFollower plan_;
  NextUses* next_uses_ = nullptr;
  std::uint32_t planned_victim_ = none;  // that next_victim() gave last
};

}  // namespace terrace::liballoc
