// Which tensor to push out: a binary heap with positions, so that a key changes in O(log n).
//
// The smallest key is the first victim; of equal keys the smaller tensor. What may not be pushed out is not
// in the heap.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::planner {

class VictimHeap {
 public:
  explicit VictimHeap(std::size_t tensors) : place_(tensors, absent), keys_(tensors, 0) {}

  bool empty() const { return heap_.empty(); }
  std::uint32_t top() const { return heap_.front(); }
  void put(std::uint32_t tensor, std::int64_t key);  // inserts, or changes the key
  void remove(std::uint32_t tensor);                 // nothing if absent

 private:
  static constexpr std::uint32_t absent = 0xffffffffU;

  bool before(std::uint32_t a, std::uint32_t b) const {
    return keys_[a] != keys_[b] ? keys_[a] < keys_[b] : a < b;
  }
  void set(std::size_t at, std::uint32_t tensor);
  void sift(std::size_t at);

  std::vector<std::uint32_t> heap_, place_;
  std::vector<std::int64_t> keys_;
};

}  // namespace terrace::planner
