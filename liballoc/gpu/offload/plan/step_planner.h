// Learns what a step looks like, has it planned, and decides step by step whether the plan or the heuristic
// rules.
//
//   unknown ──two equal steps──► learned ──steps timed under the heuristic──► asked for ──► predicted
//      ▲                            ▲                                                         │   │ not
//      faster: │ two equal steps of         │ refused by the steps' own times,            tried, kept ◄   │
//      again after └ another kind               └──────── again after a pause ◄──────────────────┘ ▼ a pause
//
// A plan is made of the heuristic's steps alone: their times, less what was waited, and the most memory that
// saved tensors took, or what a limit leaves them. PlanTrial judges a plan by the steps that it ran, and from
// time to time anew; meanwhile the plan rests. When a limit leaves less room than the plan takes, another
// plan is made for what is left. A step that leaves the plan's sequence goes on under the heuristic at once;
// the next one is tried again.
//
// Times are the host's. Where a GPU does the work they say nothing, as the host is ahead of it, so there is
// no planner there (Engine::open_planner()).
//
// Any thread may call anything. No call waits for more than another one; a plan is made by a thread of its
// own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "liballoc/gpu/offload/plan/link_speed.h"
#include "liballoc/gpu/offload/plan/plan_run.h"
#include "liballoc/gpu/offload/plan/plan_thread.h"
#include "liballoc/gpu/offload/plan/residence.h"
#include "liballoc/gpu/offload/plan/step_shape.h"
#include "liballoc/paging/planned/plan_trial.h"

namespace terrace::liballoc::offload {

class StepPlanner {
 public:
  enum class Way : std::uint8_t { out, in, drive_out, drive_in, count };
  // What a caller has to know after an event.
  struct Answer {
    bool follows = false;  // the plan rules
    bool has_moves = false;
    bool departed = false;  // just now: what the plan had left to do is the heuristic's
  };
  struct Counts {
    std::uint64_t plans = 0, planned_steps = 0, departures = 0, refusals = 0;
    std::uint64_t predicted_step_ns = 0;                       // of the last plan
    std::uint64_t planned_step_ns = 0, heuristic_step_ns = 0;  // the middle of the last ones; 0: too few
    std::uint64_t planned_wait_ns = 0, heuristic_wait_ns = 0;  // of the last step of each kind
    bool is_in_force = false;
  };

  // `judges`: a plan that is slower than the heuristic is laid aside. The amounts are those that saved
  // tensors may have in host memory and on the drive.
  StepPlanner(std::string policy, bool judges, std::uint64_t dram_bytes, std::uint64_t nvme_bytes);

  Answer saved(std::uint64_t number, std::uint64_t bytes, StepRecorder::Moment moment);
  // `stays`: its memory is in use elsewhere.
  Answer wanted(std::uint64_t number, bool stays, StepRecorder::Moment moment);
  // Its device memory was let go of, or is taken for its way back.
  void gone(std::uint64_t number);
  void back(std::uint64_t number);
  // So much device memory is in use, of which no more than `limit_bytes` may be.
  void used(std::uint64_t used_bytes, std::uint64_t limit_bytes);
  // The caller cannot follow for the rest of the step.
  Answer depart();
  std::optional<PlanRun::Move> next_move();
  void end_step(StepRecorder::Moment moment);
  void transferred(Way way, std::uint64_t bytes, std::uint64_t begun_ns, std::uint64_t ended_ns);

  Counts counts();
  // For people: what rules, and why.
  std::string text();

 private:
  using Lock = std::lock_guard<std::mutex>;

  Answer answer() const;
  // Whether a plan, if there is one, is to be followed.
  bool wants_plan() const { return trial_.follows() || (!judges_ && timed_ >= PlanTrial::sample); }
  bool is_followed() const { return follows_ && run_ != nullptr && run_->is_following(); }
  void note_waiting(StepRecorder::Moment moment);
  void learn(StepShape ended, std::uint64_t step_ns, std::uint64_t waited_ns);
  void learn_other(StepShape ended);
  void add_times(const StepShape& ended);
  void consider();
  void plan_for_less();
  void count_broken();
  void ask_for_plan();
  void take_plan();
  void refuse(std::string why);
  std::uint64_t room_bytes() const;
  Speed speed(Way way, Way like) const;

  const std::string policy_;
  const bool judges_;
  const std::uint64_t dram_bytes_, nvme_bytes_;
  std::mutex mutex_;
  StepRecorder recorder_;
  Residence residence_;
  StepShape learned_, stranger_;
  std::vector<double> busy_us_;  // by interval, sums
  std::uint32_t timed_ = 0;      // steps that are in them
  std::uint64_t peak_bytes_ = 0, others_bytes_ = 0, limit_bytes_ = 0;
  std::array<LinkSpeed, static_cast<std::size_t>(Way::count)> speeds_;
  PlanTrial trial_;
  std::unique_ptr<PlanRun> run_;
  bool follows_ = false;      // this step began under the plan
  bool is_asked_ = false;     // the thread has a request
  std::uint32_t pause_ = 0;   // steps until another plan is asked for
  std::uint32_t broken_ = 0;  // steps in a row that left the plan
  StepRecorder::Moment step_began_, last_event_;
  Counts counts_;
  std::string why_ = "two steps have not been equal yet";
  PlanThread thread_;  // ends first
};

}  // namespace terrace::liballoc::offload
