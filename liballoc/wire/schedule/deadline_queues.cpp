#include "liballoc/wire/schedule/deadline_queues.h"

#include <algorithm>

namespace terrace::wire {

std::size_t DeadlineQueues::memory_bytes(std::uint32_t lanes, std::uint32_t nodes) noexcept {
  const std::size_t words = lanes + 2 * std::size_t{nodes} + std::size_t{lanes} * nodes;
  return nodes * sizeof(Key) + (words + words % 2) * sizeof(std::uint32_t);
}

DeadlineQueues::DeadlineQueues(std::uint32_t lanes, std::uint32_t nodes, std::byte* memory) noexcept
    : lanes_(lanes), nodes_(nodes) {
  keys_ = reinterpret_cast<Key*>(memory);
  sizes_ = reinterpret_cast<std::uint32_t*>(keys_ + nodes);
  place_ = sizes_ + lanes;
  lane_ = place_ + nodes;
  heaps_ = lane_ + nodes;
  std::fill_n(sizes_, lanes, 0U);
  std::fill_n(place_, nodes, none);
}

bool DeadlineQueues::is_before(std::uint32_t a, std::uint32_t b) const noexcept {
  const Key &x = keys_[a], &y = keys_[b];
  const bool x_urgent = x.number < not_urgent, y_urgent = y.number < not_urgent;
  if (x_urgent != y_urgent) return x_urgent;
  return x.rank != y.rank ? x.rank < y.rank : x.number < y.number;
}

void DeadlineQueues::set(std::uint32_t* heap, std::uint32_t at, std::uint32_t node) noexcept {
  heap[at] = node;
  place_[node] = at;
}

void DeadlineQueues::rise(std::uint32_t* heap, std::uint32_t at) noexcept {
  const std::uint32_t node = heap[at];
  for (; at > 0 && is_before(node, heap[(at - 1) / 2]); at = (at - 1) / 2) set(heap, at, heap[(at - 1) / 2]);
  set(heap, at, node);
}

void DeadlineQueues::sink(std::uint32_t* heap, std::uint32_t at, std::uint32_t size) noexcept {
  const std::uint32_t node = heap[at];
  for (std::uint32_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
    if (child + 1 < size && is_before(heap[child + 1], heap[child])) ++child;
    if (!is_before(heap[child], node)) break;
    set(heap, at, heap[child]);
    at = child;
  }
  set(heap, at, node);
}

void DeadlineQueues::push(std::uint32_t lane, std::uint32_t node, std::uint64_t rank, bool urgent) noexcept {
  keys_[node] = {rank, ++last_number_ + (urgent ? 0 : not_urgent)};
  lane_[node] = lane;
  std::uint32_t* heap = heap_of(lane);
  const std::uint32_t at = sizes_[lane]++;
  set(heap, at, node);
  rise(heap, at);
}

void DeadlineQueues::remove(std::uint32_t node) noexcept {
  if (!waits(node)) return;
  const std::uint32_t lane = lane_[node], at = place_[node];
  std::uint32_t* heap = heap_of(lane);
  place_[node] = none;
  const std::uint32_t last = heap[--sizes_[lane]];
  if (last == node) return;
  set(heap, at, last);
  rise(heap, at);
  sink(heap, place_[last], sizes_[lane]);
}

void DeadlineQueues::clear() noexcept {
  for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
    for (const std::uint32_t node : waiting(lane)) place_[node] = none;
    sizes_[lane] = 0;
  }
}

std::uint32_t DeadlineQueues::front(std::uint32_t lane) const noexcept {
  return sizes_[lane] == 0 ? none : *heap_of(lane);
}

}  // namespace terrace::wire
