#include "daemon/planner/simulate/store/victim_heap.h"

namespace terrace::planner {

void VictimHeap::put(std::uint32_t tensor, std::int64_t key) {
  keys_[tensor] = key;
  if (place_[tensor] == absent) {
    place_[tensor] = static_cast<std::uint32_t>(heap_.size());
    heap_.push_back(tensor);
  }
  sift(place_[tensor]);
}

void VictimHeap::remove(std::uint32_t tensor) {
  const std::uint32_t at = place_[tensor];
  if (at == absent) return;
  place_[tensor] = absent;
  const std::uint32_t last = heap_.back();
  heap_.pop_back();
  if (last == tensor) return;
  set(at, last);
  sift(at);
}

void VictimHeap::set(std::size_t at, std::uint32_t tensor) {
  heap_[at] = tensor;
  place_[tensor] = static_cast<std::uint32_t>(at);
}

// Up, and if it did not move, down.
void VictimHeap::sift(std::size_t at) {
  const std::uint32_t tensor = heap_[at];
  for (; at > 0 && before(tensor, heap_[(at - 1) / 2]); at = (at - 1) / 2) set(at, heap_[(at - 1) / 2]);
  for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], tensor)) break;
    set(at, heap_[child]);
    at = child;
  }
  set(at, tensor);
}

}  // namespace terrace::planner
