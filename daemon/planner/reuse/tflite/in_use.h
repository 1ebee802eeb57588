// The objects that hold a living tensor, in the order in which they come free.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace terrace::planner::tflite {

// By last task, ties to the smaller object: the order in which TFLite's pools get their objects back, which
// decides the ids of the strategies with a stack or a list as a pool.
class InUse {
 public:
  void push(std::uint32_t last_task, std::uint32_t object) { queue_.emplace(last_task, object); }

  // Calls free(object) for each whose last task is before `task`.
  template <class Free>
  void release_before(std::uint32_t task, Free free) {
    for (; !queue_.empty() && queue_.top().first < task; queue_.pop()) free(queue_.top().second);
  }

 private:
  using LastUse = std::pair<std::uint32_t, std::uint32_t>;
  std::priority_queue<LastUse, std::vector<LastUse>, std::greater<>> queue_;
};

}  // namespace terrace::planner::tflite
