// Follows a schedule: where in its period the program is, which entries are due, and what came of them.
//
//     claimed, a schedule is there ── period begins ──► followed ── departs, budget falls ──► not followed
//                                                          │  ▲
//                                             each event   └──┘  executor: advance, take, ask
//
// A schedule is followed from the beginning of a period on, for as long as steps are not slower with it than
// without (plan_trial.h). When the program leaves the sequence, nothing is
// due any more within that event: what is under way ends as any transfer does. A budget that is more than a
// twentieth smaller than the one that was planned for has no plan. Belongs to who holds the gate; allocates
// nothing after initialise().
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/repeats/clock_event.h"
#include "liballoc/paging/block_queue.h"
#include "liballoc/paging/planned/course.h"
#include "liballoc/paging/planned/phase_trials.h"
#include "liballoc/paging/planned/planned_leaves.h"
#include "liballoc/paging/planned/planned_returns.h"
#include "liballoc/paging/planned/schedule_store.h"

namespace terrace::liballoc {

class PlanFollower {
 public:
  constexpr explicit PlanFollower(const PolicyParts& parts) : parts_(parts) {}
  PlanFollower(const PlanFollower&) = delete;
  PlanFollower& operator=(const PlanFollower&) = delete;
  ~PlanFollower() = default;
  // 0 or ENOMEM. Numbers of blocks are smaller than `most_blocks`.
  int initialise(std::uint32_t most_blocks);

  // A period was sent to be planned: schedules for it will be taken.
  void expect(std::uint32_t phase, std::uint64_t period_hash) { store_.expect(phase, period_hash); }
  // Keeps the schedule, to be followed from the next period of its phase on. "" or why not (static); then the
  // one before stays. The descriptor stays the caller's.
  const char* take(const PlanOffer& offer) { return store_.take(offer); }
  bool is_following() const { return course_.is_followed; }
  // Whether steps are timed and judge the plan, as they do if nothing is said; else it is followed wherever
  // there is one.
  void let_judge(bool wanted) { judges_ = wanted; }

  // Before the event changes what is known of the block.
  void on_event(const BlockEvent& event, const StepPlace& place);
  // A touch found nothing of run n's page in place, the first since it was.
  void on_missing(std::uint32_t n);
  // A forked child has no plan.
  void on_fork();
  // How many events from now on something is due or may begin to be followed; 0: it is not known.
  std::uint32_t events_to_trigger() const;

  // Runs that the schedule takes out and brings back.
  PlannedLeaves& leaves() { return leaves_; }
  const PlannedLeaves& leaves() const { return leaves_; }
  PlannedReturns& returns() { return returns_; }
  const PlannedReturns& returns() const { return returns_; }

 private:
  void free_block(std::uint32_t block);
  void leave_phase();
  void begin_period(const StepPlace& place);
  void choose(const StepPlace& place);
  void begin_following();
  void stop_following();
  void go_to(std::uint32_t ordinal);
  void ask(std::uint32_t entry);
  bool fits_budget() const;
  void note_step(const StepPlace& place);

  PolicyParts parts_;
  Course course_;
  ScheduleStore store_;
  PhaseTrials trials_;
  bool judges_ = true;
  std::uint64_t began_ns_ = 0;  // the step; 0: its beginning was not seen
  bool was_left_ = false;       // the plan, since the step began
  PlannedLeaves leaves_{parts_, course_};
  PlannedReturns returns_{parts_, course_};
  std::uint32_t length_ = 0;        // of the claimed phase's period; 0: none is claimed
  std::uint32_t ordinal_ = 0;       // the last event's
  std::uint32_t last_late_ = none;  // entry of which that was said in this period
};

}  // namespace terrace::liballoc
