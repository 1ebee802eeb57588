// EQUALITY: an object serves tensors of exactly its own size, the one that came free last first.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "daemon/planner/reuse/tflite/in_use.h"
#include "daemon/planner/reuse/tflite/records.h"

namespace terrace::planner::tflite {

// Fills object_of and sizes for records in the order of their first tasks. O(n log n).
template <class Size>
void assign_equal(std::span<const UsageRecord<Size>> records, std::vector<std::uint32_t>* object_of,
                  std::vector<Size>* sizes) {
  std::map<Size, std::vector<std::uint32_t>> free;  // stacks
  InUse in_use;
  for (const UsageRecord<Size>& record : records) {
    in_use.release_before(record.first_task,
                          [&](std::uint32_t object) { free[(*sizes)[object]].push_back(object); });
    std::vector<std::uint32_t>& stack = free[record.size];
    if (stack.empty()) {
      stack.push_back(static_cast<std::uint32_t>(sizes->size()));
      sizes->push_back(record.size);
    }
    object_of->push_back(stack.back());
    stack.pop_back();
    in_use.push(record.last_task, object_of->back());
  }
}

}  // namespace terrace::planner::tflite
