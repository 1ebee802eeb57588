#include "liballoc/gpu/offload/plan/step_planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace terrace::liballoc::offload {
namespace {

constexpr std::uint32_t pause_steps = 64;        // after a plan that was not worth following
constexpr std::uint32_t most_broken = 8;         // steps in a row
constexpr std::uint64_t least_wait_ns = 20'000;  // below it a lock was waited for, and not a transfer
constexpr std::uint64_t most_tensors = 100'000;  // of a step that is planned

std::string in_ms(double us) {
  const auto tenths = static_cast<std::uint64_t>(std::llround(us / 100));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " ms";
}

}  // namespace

StepPlanner::StepPlanner(std::string policy, bool judges, std::uint64_t dram_bytes, std::uint64_t nvme_bytes)
    : policy_(std::move(policy)), judges_(judges), dram_bytes_(dram_bytes), nvme_bytes_(nvme_bytes) {}

StepPlanner::Answer StepPlanner::answer() const {
  return {.follows = is_followed(), .has_moves = is_followed() && run_->has_moves()};
}

// Between the event before and this one the program waited for what that one wanted.
void StepPlanner::note_waiting(StepRecorder::Moment moment) {
  if (is_followed() && moment.waited_ns - last_event_.waited_ns > least_wait_ns) run_->waited();
  last_event_ = moment;
}

StepPlanner::Answer StepPlanner::saved(std::uint64_t number, std::uint64_t bytes,
                                       StepRecorder::Moment moment) {
  const Lock lock(mutex_);
  note_waiting(moment);
  recorder_.saved(number, bytes, moment);
  residence_.saved(bytes);
  const bool departs = is_followed() && !run_->saved(number, bytes);
  if (departs) ++counts_.departures;
  Answer said = answer();
  said.departed = departs;
  return said;
}

StepPlanner::Answer StepPlanner::wanted(std::uint64_t number, bool stays, StepRecorder::Moment moment) {
  const Lock lock(mutex_);
  note_waiting(moment);
  if (!recorder_.wanted(number, stays, moment)) return answer();
  residence_.wanted();
  const bool departs = is_followed() && !run_->wanted(number);
  if (departs) ++counts_.departures;
  Answer said = answer();
  said.departed = departs;
  return said;
}

void StepPlanner::gone(std::uint64_t number) {
  const Lock lock(mutex_);
  residence_.gone(number);
  if (follows_ && run_ != nullptr) run_->gone(number);
}

void StepPlanner::back(std::uint64_t number) {
  const Lock lock(mutex_);
  residence_.back(number);
}

void StepPlanner::used(std::uint64_t used_bytes, std::uint64_t limit_bytes) {
  const Lock lock(mutex_);
  limit_bytes_ = limit_bytes;
  others_bytes_ = std::max(others_bytes_, used_bytes - std::min(used_bytes, residence_.bytes()));
}

StepPlanner::Answer StepPlanner::depart() {
  const Lock lock(mutex_);
  if (!is_followed()) return {};
  run_->depart();
  ++counts_.departures;
  return {.departed = true};
}

std::optional<PlanRun::Move> StepPlanner::next_move() {
  const Lock lock(mutex_);
  if (!is_followed()) return std::nullopt;
  return run_->next_move();
}

void StepPlanner::transferred(Way way, std::uint64_t bytes, std::uint64_t begun_ns, std::uint64_t ended_ns) {
  const Lock lock(mutex_);
  speeds_[static_cast<std::size_t>(way)].note(bytes, begun_ns, ended_ns);
}

// What nobody saved in is no step: a program may say twice that one has ended.
void StepPlanner::end_step(StepRecorder::Moment moment) {
  const Lock lock(mutex_);
  if (recorder_.shape().tensors.empty()) return;
  note_waiting(moment);
  StepShape ended = recorder_.end(moment);
  const std::uint64_t step_ns = moment.now_ns - step_began_.now_ns;
  const std::uint64_t waited_ns = moment.waited_ns - step_began_.waited_ns;
  step_began_ = moment;
  count_broken();
  learn(std::move(ended), step_ns, waited_ns);
  if (is_asked_) take_plan();
  if (pause_ > 0) --pause_;
  follows_ = run_ != nullptr && wants_plan();
  if (follows_) run_->begin_step();
  residence_.begin_step(learned_);
}

// A sequence that is never kept, as where several threads run backward, is no sequence.
void StepPlanner::count_broken() {
  if (!follows_) return;
  broken_ = run_->is_following() ? 0 : broken_ + 1;
  if (broken_ < most_broken) return;
  broken_ = 0;
  run_.reset();
  follows_ = false;
  refuse(std::to_string(most_broken) + " steps in a row left the plan's sequence");
}

void StepPlanner::learn(StepShape ended, std::uint64_t step_ns, std::uint64_t waited_ns) {
  if (!ended.is_like(learned_)) {
    learn_other(std::move(ended));
    return;
  }
  const bool was_planned = is_followed();
  const bool was_heuristic = !follows_;
  stranger_ = {};
  if (was_planned) {
    ++counts_.planned_steps;
    counts_.planned_wait_ns = waited_ns;
  }
  if (was_heuristic) {
    counts_.heuristic_wait_ns = waited_ns;
    add_times(ended);
  }
  if (was_planned || was_heuristic) trial_.note_step(step_ns, was_planned);
  consider();
}

// An evaluation, or a last batch of another size, is one step of another kind; two are another program.
void StepPlanner::learn_other(StepShape ended) {
  const bool is_again = !ended.tensors.empty() && ended.is_like(stranger_);
  stranger_ = std::move(ended);
  if (!is_again) return;
  learned_ = std::exchange(stranger_, {});
  busy_us_.assign(learned_.busy_ns.size(), 0);
  timed_ = pause_ = 0;
  peak_bytes_ = others_bytes_ = limit_bytes_ = 0;
  is_asked_ = false;
  run_.reset();
  trial_ = {};
  trial_.take_plan(true);
  why_ = "the step is known, and timed under the heuristic";
}

// The first steps page-lock host memory, and the latest say most of what is to come.
void StepPlanner::add_times(const StepShape& ended) {
  peak_bytes_ = std::max(peak_bytes_, residence_.peak_bytes());
  if (timed_ >= 2 * PlanTrial::sample) {
    for (double& sum : busy_us_) sum /= 2;
    timed_ /= 2;
  }
  for (std::size_t i = 0; i < busy_us_.size(); ++i)
    busy_us_[i] += static_cast<double>(ended.busy_ns[i]) / 1e3;
  for (std::size_t i = 0; i < learned_.tensors.size(); ++i)
    learned_.tensors[i].stays = learned_.tensors[i].stays || ended.tensors[i].stays;
  ++timed_;
}

void StepPlanner::consider() {
  counts_.refusals = trial_.refusals();
  if (run_ != nullptr && broken_ > 0 && room_bytes() < run_->plan().room_bytes) return plan_for_less();
  if (run_ != nullptr && judges_ && trial_.is_refused()) {
    why_ = "steps were slower with the plan of " + run_->plan().schedule.policy + " (" +
           in_ms(static_cast<double>(trial_.planned_ns()) / 1e3) + ") than without (" +
           in_ms(static_cast<double>(trial_.reactive_ns()) / 1e3) + ")";
    run_.reset();
  }
  if (run_ == nullptr && wants_plan() && !is_asked_ && pause_ == 0) ask_for_plan();
}

// What the program takes beside saved tensors has grown: what leaves a plan for too little memory, leaves it
// in each step. The times are as good as they were, and the heuristic's steps, too.
void StepPlanner::plan_for_less() {
  run_.reset();
  broken_ = 0;
  trial_.take_plan(true);
  if (wants_plan()) ask_for_plan();
}

// Where a limit is known, what it leaves; else what the heuristic needed.
std::uint64_t StepPlanner::room_bytes() const {
  if (limit_bytes_ == 0) return peak_bytes_;
  return limit_bytes_ - std::min(limit_bytes_, others_bytes_);
}

// What was never seen to end is taken for as fast as the other way.
Speed StepPlanner::speed(Way way, Way like) const {
  const LinkSpeed& own = speeds_[static_cast<std::size_t>(way)];
  const LinkSpeed& other = speeds_[static_cast<std::size_t>(like)];
  const LinkSpeed& known = own.is_known() ? own : other;
  if (!known.is_known()) return {};
  return {known.bytes_per_second(), known.latency_us()};
}

void StepPlanner::ask_for_plan() {
  PlanRequest request;
  request.out = speed(Way::out, Way::in);
  request.in = speed(Way::in, Way::out);
  request.drive_out = speed(Way::drive_out, Way::drive_in);
  request.drive_in = speed(Way::drive_in, Way::drive_out);
  if (learned_.tensors.size() > most_tensors)
    return refuse("a step saves more than " + std::to_string(most_tensors) + " tensors");
  if (request.out.bytes_per_second == 0)
    return refuse("too few bytes have left to know how fast the link is");
  request.shape = learned_;
  for (const double sum : busy_us_) request.busy_us.push_back(sum / timed_);
  request.room_bytes = room_bytes();
  request.dram_bytes = dram_bytes_;
  request.nvme_bytes = request.drive_out.bytes_per_second > 0 ? nvme_bytes_ : 0;
  request.policy = policy_;
  if (!thread_.ask(std::move(request))) return refuse("no thread could be started (ulimit -u)");
  is_asked_ = true;
  why_ = "the plan is being made";
}

void StepPlanner::refuse(std::string why) {
  why_ = std::move(why);
  pause_ = pause_steps;
}

void StepPlanner::take_plan() {
  std::optional<Result<Plan>> made = thread_.take();
  if (!made) return;
  is_asked_ = false;
  if (!*made) return refuse("there is no plan: " + made->error);
  const wire::Prediction& predicted = (*made)->schedule.predicted;
  const double heuristic_us = static_cast<double>(trial_.reactive_ns()) / 1e3;
  ++counts_.plans;
  counts_.predicted_step_ns = static_cast<std::uint64_t>(predicted.step_us * 1e3);
  if ((*made)->schedule.entries.empty()) return refuse("everything fits: there is nothing to move");
  if (judges_ && predicted.step_us > heuristic_us * 1.02)
    return refuse("the plan of " + (*made)->schedule.policy + " would take " + in_ms(predicted.step_us) +
                  ", the heuristic takes " + in_ms(heuristic_us));
  why_ = "plan of " + (*made)->schedule.policy + ", predicted " + in_ms(predicted.step_us) +
         ", without a plan " + in_ms(heuristic_us);
  run_ = std::make_unique<PlanRun>(std::make_shared<const Plan>(std::move(**made)));
}

StepPlanner::Counts StepPlanner::counts() {
  const Lock lock(mutex_);
  Counts counts = counts_;
  counts.is_in_force = follows_;
  counts.planned_step_ns = trial_.planned_ns();
  counts.heuristic_step_ns = trial_.reactive_ns();
  return counts;
}

std::string StepPlanner::text() {
  const Lock lock(mutex_);
  if (run_ != nullptr && !wants_plan())
    return "heuristic: its steps are compared anew with those under the plan of " +
           run_->plan().schedule.policy;
  return (follows_ ? "" : "heuristic: ") + why_;
}

}  // namespace terrace::liballoc::offload
