// GREEDY_BY_BREADTH: the task with the most live bytes decides first, and in it the largest tensor.
//
// TFLite lists for every task what lives then, which for a training step of 60,000 tensors is 10^8 entries.
// Here a tensor hangs on the O(log tasks) nodes of a segment tree that make up its life, and a task takes
// what hangs between its leaf and the root: all of that is alive at the task and gets assigned there, so
// every entry is looked at once.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "daemon/planner/reuse/tflite/strategies.h"

namespace terrace::planner::tflite {
namespace {

std::uint32_t task_count(Records records) {
  std::uint32_t tasks = 0;
  for (const Record& r : records) tasks = std::max(tasks, r.last_task + 1);
  return tasks;
}

std::vector<std::uint32_t> tasks_by_breadth(Records records, std::uint32_t tasks) {
  std::vector<std::uint64_t> breadth(tasks + std::size_t{1}, 0);  // first the changes, then their sums
  for (const Record& r : records) {
    breadth[r.first_task] += r.size;
    breadth[r.last_task + std::size_t{1}] -= r.size;
  }
  std::partial_sum(breadth.begin(), breadth.end(), breadth.begin());
  std::vector<std::uint32_t> order(tasks);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return breadth[a] > breadth[b]; });
  return order;
}

class Lives {
 public:
  Lives(Records records, std::uint32_t tasks) : leaves_(std::bit_ceil(std::max(tasks, 1U))) {
    at_.resize(std::size_t{2} * leaves_);
    for (std::uint32_t r = 0; r < records.size(); ++r) hang(records[r], r);
  }

  // Moves all that live at the task and were not taken before, and perhaps some that were, into `taken`.
  void take(std::uint32_t task, std::vector<std::uint32_t>* taken) {
    for (std::uint32_t node = leaves_ + task; node > 0; node /= 2) {
      taken->insert(taken->end(), at_[node].begin(), at_[node].end());
      at_[node].clear();
    }
  }

 private:
  void hang(const Record& record, std::uint32_t index) {
    std::uint32_t from = leaves_ + record.first_task;
    std::uint32_t to = leaves_ + record.last_task + 1;
    for (; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) at_[from++].push_back(index);
      if (to % 2 == 1) at_[--to].push_back(index);
    }
  }

  std::uint32_t leaves_;
  std::vector<std::vector<std::uint32_t>> at_;  // heap order, root at 1
};

class Assignment {
 public:
  explicit Assignment(Records records) : records_(records) {
    objects_.object_of.assign(records.size(), unassigned);
  }

  bool assigned(std::uint32_t r) const { return objects_.object_of[r] != unassigned; }

  void assign(std::uint32_t r) {
    const Record& record = records_[r];
    const std::uint32_t object = best_object(record);
    if (object == schedules_.size()) {
      schedules_.emplace_back();
      objects_.object_bytes.push_back(0);
    }
    schedules_[object].emplace(record.first_task, record.last_task);
    objects_.object_bytes[object] = std::max(objects_.object_bytes[object], record.size);
    objects_.object_of[r] = object;
  }

  Objects objects() && { return std::move(objects_); }

 private:
  using Schedule = std::map<std::uint32_t, std::uint32_t>;  // first task -> last task, without overlap

  static bool is_free(const Schedule& schedule, const Record& record) {
    const auto next = schedule.lower_bound(record.first_task);
    if (next != schedule.end() && next->first <= record.last_task) return false;
    return next == schedule.begin() || std::prev(next)->second < record.first_task;
  }

  // Whether an object of `bytes` would serve `size` better than the best so far: while that is too small, a
  // larger one; then the smallest that is large enough.
  static bool better(std::uint64_t bytes, std::uint64_t best_bytes, std::uint64_t size) {
    return best_bytes < size ? bytes > best_bytes : bytes >= size && bytes < best_bytes;
  }

  std::uint32_t best_object(const Record& record) const {
    const auto none = static_cast<std::uint32_t>(schedules_.size());
    std::uint32_t best = none;
    for (std::uint32_t o = 0; o < none; ++o) {
      if (best != none && !better(objects_.object_bytes[o], objects_.object_bytes[best], record.size))
        continue;
      if (is_free(schedules_[o], record)) best = o;
    }
    return best;
  }

  Records records_;
  Objects objects_;
  std::vector<Schedule> schedules_;  // of each object
};

}  // namespace

Objects by_breadth(Records records) {
  const std::uint32_t tasks = task_count(records);
  Lives lives(records, tasks);
  Assignment assignment(records);
  std::vector<std::uint32_t> taken;
  for (const std::uint32_t task : tasks_by_breadth(records, tasks)) {
    taken.clear();
    lives.take(task, &taken);
    std::erase_if(taken, [&](std::uint32_t r) { return assignment.assigned(r); });
    std::sort(taken.begin(), taken.end(), [&](std::uint32_t a, std::uint32_t b) {
      return records[a].size != records[b].size ? records[a].size > records[b].size : a < b;
    });
    for (const std::uint32_t r : taken) assignment.assign(r);
  }
  return std::move(assignment).objects();
}

}  // namespace terrace::planner::tflite
