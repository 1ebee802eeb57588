// Clean copies: what came in is still where it came from, until it is written.
//
// Evicting such a tensor to where its copy lies moves nothing: it leaves as soon as nothing uses it
// ("settle"). A copy that nobody has asked for gives way to an eviction that needs its room, the oldest
// first.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/planner/simulate/store/recording.h"
#include "daemon/planner/simulate/store/room.h"
#include "daemon/planner/simulate/store/tensor_state.h"

namespace terrace::planner {

// Changes states, room and recording, which must outlive it.
class Copies {
 public:
  Copies(const wire::Trace& trace, std::vector<TensorState>& states, Room& room, Recording& recording);

  void arrived(std::uint32_t tensor);                  // it has come from its tier, and is still there
  void forget(std::uint32_t tensor);                   // if it has one
  void replaced(std::uint32_t tensor, double now_us);  // by what leaves now: the same, and told
  // Evicting it there moves nothing, now or when it has come.
  bool clean_in(std::uint32_t tensor, std::uint32_t tier) const;

  // Evictions to copies: they wait until nothing uses the tensor, or are called off.
  void ask(std::uint32_t tensor);
  void call_off(std::uint32_t tensor);
  void settle(double now_us);

  // For an eviction of so many bytes, as far as they are needed.
  void give_way(std::uint32_t tier, std::uint64_t bytes, double now_us);

 private:
  struct Copy {
    std::uint32_t tensor = 0, number = 0;
  };

  bool may_give_way(std::uint32_t tensor) const {
    return states_[tensor].copied && !states_[tensor].asked_clean;
  }
  void leave_to_copy(std::uint32_t tensor, double now_us);

  const wire::Trace& trace_;
  std::vector<TensorState>& states_;
  Room& room_;
  Recording& recording_;
  std::vector<std::deque<Copy>> copies_;  // per tier, oldest first; some are gone
  std::vector<std::uint32_t> numbers_;    // per tensor: of its copy
  std::vector<std::uint32_t> asked_;      // to leave to their copies; some were called off
  std::uint32_t last_number_ = 0;
};

}  // namespace terrace::planner
