#include "liballoc/gpu/offload/plan/plan_run.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace terrace::liballoc::offload {
namespace {

using wire::Executor;
using wire::Way;

constexpr std::uint32_t out_lane = Executor::lane(0, Way::out), in_lane = Executor::lane(0, Way::in);

// One node more for each tensor: what no entry moves at the moment, but memory has to be had.
wire::ExecutorPlan executor_plan(const Plan& plan) {
  return {.entries = plan.schedule.entries,
          .objects = plan.schedule.objects,
          .period = plan.schedule.period,
          .out_order = plan.schedule.out_order,
          .in_order = plan.schedule.in_order,
          .links = 1,
          .extra = static_cast<std::uint32_t>(plan.shape.tensors.size())};
}

// Of what takes no memory that a move could free, none.
std::uint64_t bytes_of(const StepTensor& tensor) { return tensor.stays ? 0 : tensor.bytes; }

}  // namespace

PlanRun::PlanRun(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      entries_(static_cast<std::uint32_t>(plan_->schedule.entries.size())),
      memory_(Executor::memory_bytes(executor_plan(*plan_)) / sizeof(std::uint64_t) + 1),
      made_bytes_(plan_->shape.events.size(), 0),
      last_used_(plan_->shape.events.size()),
      by_furthest_use_(plan_->shape.tensors.size()) {
  executor_.emplace(executor_plan(*plan_), reinterpret_cast<std::byte*>(memory_.data()));
  const std::vector<StepTensor>& tensors = plan_->shape.tensors;
  for (std::uint32_t number = 0; number < tensors.size(); ++number) {
    made_bytes_[tensors[number].saved_at - 1] = bytes_of(tensors[number]);
    if (tensors[number].last_wanted != StepTensor::never)
      last_used_[tensors[number].last_wanted].push_back(number);
  }
  std::iota(by_furthest_use_.begin(), by_furthest_use_.end(), 0);
  std::sort(by_furthest_use_.begin(), by_furthest_use_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tensors[a].first_wanted > tensors[b].first_wanted;
  });
}

void PlanRun::begin_step() {
  const std::size_t tensors = plan_->shape.tensors.size();
  for (std::uint32_t number = 0; number < nodes_.size(); ++number) {
    if (nodes_[number] != Executor::none) executor_->abort(nodes_[number]);
    executor_->forget(number);
  }
  states_.assign(tensors, State::unborn);
  is_given_up_.assign(tensors, 0);
  nodes_.assign(tensors, Executor::none);
  leaving_.clear();
  moves_.clear();
  resident_bytes_ = given_up_bytes_ = 0;
  awaited_ = Executor::none;
  ordinal_ = 0;
  if (std::exchange(has_begun_, true)) executor_->begin_period();
  enter();
}

bool PlanRun::is_next(bool is_save, std::uint64_t number) const {
  const std::vector<StepEvent>& events = plan_->shape.events;
  return is_following() && ordinal_ + 1 < events.size() && events[ordinal_ + 1].is_save == is_save &&
         events[ordinal_ + 1].number == number;
}

bool PlanRun::saved(std::uint64_t number, std::uint64_t bytes) {
  if (!is_next(true, number) || plan_->shape.tensors[number].bytes != bytes) {
    depart();
    return false;
  }
  ++ordinal_;
  end_uses();
  states_[number] = State::here;
  resident_bytes_ += bytes_of(plan_->shape.tensors[number]);
  enter();
  return true;
}

// A way out that has not ended is not needed any more, and a way back is over when it is asked for.
bool PlanRun::wanted(std::uint64_t number) {
  if (!is_next(false, number)) {
    depart();
    return false;
  }
  ++ordinal_;
  end_uses();
  const auto object = static_cast<std::uint32_t>(number);
  const State before = std::exchange(states_[number], State::used);
  const std::uint32_t node = std::exchange(nodes_[number], Executor::none);
  const std::uint64_t bytes = bytes_of(plan_->shape.tensors[number]);
  awaited_ = Executor::none;
  std::erase_if(moves_, [object](const Move& move) { return move.number == object; });  // it comes now anyway
  if (before == State::leaving) {
    executor_->abort(node);
    if (std::exchange(is_given_up_[number], 0) != 0) given_up_bytes_ -= bytes;
  }
  if (before == State::arriving) {
    executor_->done(node);
    awaited_ = node < entries_ ? node : Executor::none;
  }
  if (before == State::away) {
    if (const std::uint32_t late = executor_->waiting_of(object); late != Executor::none)
      executor_->call_off(late);
    make_room(bytes);
    resident_bytes_ += bytes;
  }
  enter();
  return true;
}

void PlanRun::depart() {
  if (!is_following()) return;
  executor_->depart();
  moves_.clear();
}

void PlanRun::gone(std::uint64_t number) {
  if (number >= states_.size() || states_[number] != State::leaving) return;
  executor_->done(std::exchange(nodes_[number], Executor::none));
  states_[number] = State::away;
  const std::uint64_t bytes = bytes_of(plan_->shape.tensors[number]);
  resident_bytes_ -= bytes;
  if (std::exchange(is_given_up_[number], 0) != 0) given_up_bytes_ -= bytes;
  if (is_following()) start_ins();
}

void PlanRun::waited() {
  if (is_following() && awaited_ != Executor::none) executor_->late(std::exchange(awaited_, Executor::none));
}

std::optional<PlanRun::Move> PlanRun::next_move() {
  if (moves_.empty()) return std::nullopt;
  const Move move = moves_.front();
  moves_.pop_front();
  return move;
}

// The program is just before the interval that begins with this event.
void PlanRun::enter() {
  executor_->advance(ordinal_);
  take_due();
  start_outs();
  make_room(0);
  start_ins();
}

// What the interval before this event used last.
void PlanRun::end_uses() {
  for (const std::uint32_t number : last_used_[ordinal_ - 1]) {
    if (states_[number] != State::used) continue;
    states_[number] = State::ended;
    resident_bytes_ -= bytes_of(plan_->shape.tensors[number]);
  }
}

void PlanRun::take_due() {
  for (std::uint32_t entry = executor_->take(); entry != Executor::none; entry = executor_->take())
    executor_->ask(entry, 0);
}

void PlanRun::start_outs() {
  for (std::uint32_t node = executor_->next(out_lane); node != Executor::none;
       node = executor_->next(out_lane)) {
    const wire::ScheduleEntry& entry = plan_->schedule.entries[node];
    if (states_[entry.object] == State::here)
      start_out(node, entry.object, entry.tier);
    else
      executor_->call_off(node);
  }
}

void PlanRun::start_out(std::uint32_t node, std::uint32_t number, std::uint32_t tier) {
  executor_->start(node);
  nodes_[number] = node;
  states_[number] = State::leaving;
  leaving_.push_back(number);
  moves_.push_back({Move::What::out, number, tier});
}

// Beside what the interval makes.
bool PlanRun::fits(std::uint64_t bytes) const {
  return resident_bytes_ - given_up_bytes_ + made_bytes_[ordinal_] + bytes <= plan_->room_bytes;
}

// Who has not left yet is waited for: it may be wanted before anything behind it.
void PlanRun::start_ins() {
  for (std::uint32_t node = executor_->next(in_lane); node != Executor::none;
       node = executor_->next(in_lane)) {
    const std::uint32_t number = plan_->schedule.entries[node].object;
    const std::uint64_t bytes = bytes_of(plan_->shape.tensors[number]);
    if (states_[number] == State::leaving) return;
    if (states_[number] != State::away) {
      executor_->call_off(node);
      continue;
    }
    if (!fits(bytes)) return;
    executor_->start(node);
    nodes_[number] = node;
    states_[number] = State::arriving;
    resident_bytes_ += bytes;
    moves_.push_back({Move::What::in, number});
  }
}

void PlanRun::make_room(std::uint64_t bytes) {
  while (!fits(bytes) && (give_up_oldest() || send_furthest())) continue;
}

void PlanRun::give_up(std::uint32_t number) {
  is_given_up_[number] = 1;
  given_up_bytes_ += bytes_of(plan_->shape.tensors[number]);
  moves_.push_back({Move::What::give_up, number});
}

bool PlanRun::give_up_oldest() {
  while (!leaving_.empty()) {
    const std::uint32_t number = leaving_.front();
    leaving_.pop_front();
    if (states_[number] != State::leaving || is_given_up_[number] != 0) continue;
    give_up(number);
    return true;
  }
  return false;
}

// What is wanted next of all is not sent away for something else.
bool PlanRun::send_furthest() {
  for (const std::uint32_t number : by_furthest_use_) {
    const StepTensor& tensor = plan_->shape.tensors[number];
    if (tensor.first_wanted <= ordinal_ + 1) return false;
    if (states_[number] != State::here || bytes_of(tensor) == 0) continue;
    if (executor_->ask_extra(extra(number), {.object = number, .way = Way::out}) != Executor::Asked::waits)
      continue;
    start_out(extra(number), number, 1);
    give_up(number);
    return true;
  }
  return false;
}

}  // namespace terrace::liballoc::offload
