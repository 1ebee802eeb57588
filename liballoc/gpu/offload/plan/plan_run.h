// Carries a plan out over one step after another: told of each event, it says which tensors are to leave now,
// which come back, and for which memory is to be waited.
//
//   event ──► Executor: what is due ──► out: at once, the device's stream is the queue
//                  │                └─► in: in the order of the lane, when there is room
//                  └─ room for what the next interval makes: what is leaving is given up, or, by the furthest
//                     use, something else leaves
//
// A tensor's memory is counted as the trace has it: from its event, or from when its way back begins, to the
// end of the interval that uses it last; a way out ends when the caller says gone(). Nothing here knows a
// clock, an engine or memory. One thread at a time. No call takes longer than what it has to say, times
// O(log n); but to find who leaves where nothing was planned for it may look at all tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "liballoc/gpu/offload/plan/plan_maker.h"
#include "liballoc/wire/schedule/executor.h"

namespace terrace::liballoc::offload {

class PlanRun {
 public:
  struct Move {
    enum class What : std::uint8_t {
      out,      // begin its way out
      give_up,  // its memory is needed now: wait for its way out, or let the stream wait
      in        // begin its way back
    };
    What what = What::out;
    std::uint32_t number = 0;
    std::uint32_t tier = 1;  // of `out`: 2 is the drive
  };

  explicit PlanRun(std::shared_ptr<const Plan> plan);

  const Plan& plan() const { return *plan_; }
  bool is_following() const { return executor_->is_following(); }
  // Event 0. What was not carried out of the step before is forgotten.
  void begin_step();
  // The next event; false: it is another one than the plan's, and the plan is left for the rest of the step.
  bool saved(std::uint64_t number, std::uint64_t bytes);
  bool wanted(std::uint64_t number);
  void depart();
  // Its device memory was let go of, its way out being over or ordered.
  void gone(std::uint64_t number);
  // The program has waited since the last event: what was wanted then came too late.
  void waited();
  // What is to be done now, in this order; the caller does it.
  std::optional<Move> next_move();
  bool has_moves() const { return !moves_.empty(); }
  std::uint64_t resident_bytes() const { return resident_bytes_; }

 private:
  enum class State : std::uint8_t { unborn, here, leaving, away, arriving, used, ended };

  std::uint32_t extra(std::uint32_t number) const { return entries_ + number; }
  bool is_next(bool is_save, std::uint64_t number) const;
  void enter();
  void end_uses();
  void take_due();
  void start_outs();
  void start_ins();
  void start_out(std::uint32_t node, std::uint32_t number, std::uint32_t tier);
  bool fits(std::uint64_t bytes) const;
  void make_room(std::uint64_t bytes);
  void give_up(std::uint32_t number);
  bool give_up_oldest();
  bool send_furthest();

  const std::shared_ptr<const Plan> plan_;
  const std::uint32_t entries_;
  std::vector<std::uint64_t> memory_;  // the executor's, in words
  std::optional<wire::Executor> executor_;
  std::vector<std::uint64_t> made_bytes_;              // by interval: of the tensor that is saved at its end
  std::vector<std::vector<std::uint32_t>> last_used_;  // by interval
  std::vector<std::uint32_t> by_furthest_use_;
  std::vector<State> states_;              // by number
  std::vector<std::uint8_t> is_given_up_;  // by number
  std::vector<std::uint32_t> nodes_;       // by number: under way
  std::deque<std::uint32_t> leaving_;      // in the order of their begin; those that have gone among them
  std::deque<Move> moves_;
  std::uint64_t resident_bytes_ = 0;
  std::uint64_t given_up_bytes_ = 0;              // of them: gone soon
  std::uint32_t awaited_ = wire::Executor::none;  // the entry that brings what the last event wanted
  std::uint32_t ordinal_ = 0;
  bool has_begun_ = false;
};

}  // namespace terrace::liballoc::offload
