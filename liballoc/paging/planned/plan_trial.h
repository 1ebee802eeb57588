// Whether a plan keeps its word: a plan is followed for as long as steps are not slower with it than without.
//
// A prediction knows what a step touches and how fast a drive was. It does not know what else the machine
// does, nor what of the step was never seen. So the step itself is the judge: the middle of the last steps
// under the reactive policy is what a plan has to match. A plan that does not is laid aside, and tried again
// after a pause that doubles, as a drive that was busy once may be idle later. A plan that comes when few
// steps were seen is tried at once, and judged by those few as far as they can: it is kept for a short time,
// or compared with more. One whose steps become shorter from one to the next is still finding its times
// (feedback, wire/schedule/executor.h) and tried for longer. Steps that lie far apart in time say little of
// each other, since the machine changes: a plan that is kept is compared anew from time to time, and at once
// when its steps become much slower. Pure; belongs to one phase.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace terrace::liballoc {

class PlanTrial {
 public:
  static constexpr std::uint32_t sample = 5;               // steps that are compared
  static constexpr std::uint32_t least_sample = 3;         // fewer lay no plan aside
  static constexpr std::uint32_t most_tried = 3 * sample;  // planned steps, as long as they become shorter
  static constexpr std::uint32_t settling = 2;             // steps after a change that say nothing of either
  static constexpr std::uint32_t least_pause = 32;         // steps
  static constexpr std::uint32_t most_pause = 1024;
  static constexpr std::uint32_t least_kept =
      64;  // planned steps until the next comparison; each time doubled
  static constexpr std::uint32_t first_kept = 16;  // of a plan that was compared with fewer than least_sample
  static constexpr std::uint32_t most_kept = 1024;

  // Whether the next step is to be run by the plan.
  bool follows() const { return state_ == State::tried || state_ == State::kept; }
  // Whether the plan was laid aside. While a plan is compared anew it rests, and is not.
  bool is_refused() const { return state_ == State::refused; }
  // How often a plan was laid aside.
  std::uint32_t refusals() const { return refusals_; }
  // The middle of the last steps with and without the plan, in ns; 0: not enough were seen.
  std::uint64_t planned_ns() const { return planned_.is_enough() ? planned_.middle() : 0; }
  std::uint64_t reactive_ns() const { return reactive_.is_enough() ? reactive_.middle() : 0; }

  // A step has ended and took so long; `planned`: it was run by the plan from its beginning to its end.
  void note_step(std::uint64_t ns, bool planned) {
    if (planned != follows()) return;  // the change was asked for and has not come yet, or came in between
    if (settling_ > 0) {
      --settling_;
      return;
    }
    planned ? note_planned(ns) : note_reactive(ns);
  }
  // The first plan has come, or another one. One for the same budget knows little more than the one before:
  // it is tried when that would be. For another budget all that was seen is void.
  void take_plan(bool same_budget) {
    if (!same_budget) *this = PlanTrial();
    if (state_ == State::unplanned) become(reactive_.size() > 0 ? State::tried : State::compared);
  }

 private:
  enum class State : std::uint8_t {
    unplanned,  // reactive: there is no plan yet
    compared,   // reactive, for the comparison
    tried,      // planned, for the comparison
    kept,       // planned: it was not slower
    refused     // reactive, until the pause is over
  };

  class Sample {
   public:
    void note(std::uint64_t ns) { ns_[count_++ % sample] = ns; }
    std::uint32_t size() const { return std::min(count_, sample); }
    // The last two steps took less than the first two, by a twentieth: more than they differ by anyway.
    bool falls() const {
      if (count_ < sample) return false;
      const std::uint64_t before = ns_[count_ % sample] + ns_[(count_ + 1) % sample];
      const std::uint64_t now = ns_[(count_ + 3) % sample] + ns_[(count_ + 4) % sample];
      return now < before - before / 20;
    }
    bool is_enough() const { return size() >= least_sample; }
    std::uint64_t middle() const {
      std::array<std::uint64_t, sample> sorted = ns_;
      std::sort(sorted.begin(), sorted.begin() + size());
      return sorted[size() / 2];
    }

   private:
    std::array<std::uint64_t, sample> ns_ = {};
    std::uint32_t count_ = 0;
  };

  void become(State state) {
    state_ = state;
    settling_ = settling;
    since_ = 0;
  }
  void note_reactive(std::uint64_t ns) {
    reactive_.note(ns);
    ++since_;
    if (state_ == State::unplanned) return;
    const bool is_over = state_ == State::compared ? since_ >= sample : since_ >= pause_;
    if (!is_over) return;
    if (state_ == State::refused) pause_ = std::min(2 * pause_, most_pause);
    planned_ = {};
    become(State::tried);
  }
  void note_planned(std::uint64_t ns) {
    planned_.note(ns);
    if (++since_ < sample) return;
    const std::uint64_t with = planned_.middle(), without = reactive_.middle();
    if (state_ == State::tried) {
      const bool is_good = with <= without + without / 50;  // what two samples of five may differ by anyway
      if (is_good || since_ % sample == 0) end_trial(is_good);
    } else if (with > without + without / 10) {
      kept_ = least_kept;
      become(State::compared);
    } else if (since_ >= kept_) {
      kept_ = std::min(2 * kept_, most_kept);
      become(State::compared);
    }
  }
  void end_trial(bool is_good) {
    if (!is_good && since_ < most_tried && planned_.falls()) return;
    if (!reactive_.is_enough()) {
      kept_ = first_kept;
      return become(is_good ? State::kept : State::compared);
    }
    if (!is_good) ++refusals_;
    become(is_good ? State::kept : State::refused);
    if (!is_good) kept_ = least_kept;
  }

  Sample planned_, reactive_;
  State state_ = State::unplanned;
  std::uint32_t settling_ = 0;  // nothing has changed before the first plan
  std::uint32_t since_ = 0;     // steps that count, in this state
  std::uint32_t pause_ = least_pause;
  std::uint32_t kept_ = least_kept;
  std::uint32_t refusals_ = 0;
};

}  // namespace terrace::liballoc
