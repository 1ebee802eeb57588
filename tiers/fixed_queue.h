// The two fixed-size containers that stand in for malloc on the transfer path.
//
//  * CompletionQueue: finished transfers that poll() has not taken yet, first in first out.
//  * SlotTable<T>: what is known of each transfer in flight, under an index that travels as the token of the
//    layer below and comes back with its completion.
//
// Both are bounded by max_queue_depth and constant-initialised. Callers serialise
// {submit, poll} as tier.h says.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tiers/tier.h"

namespace terrace::tiers {

inline constexpr std::size_t max_queue_depth = 256;

class CompletionQueue {
 public:
  constexpr CompletionQueue() = default;

  std::size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }

  void push(const Completion& completion) noexcept {
    assert(size_ < max_queue_depth);
    items_[(first_ + size_++) % max_queue_depth] = completion;
  }

  std::size_t take(std::span<Completion> out) noexcept {
    const std::size_t count = std::min(out.size(), size_);
    for (std::size_t i = 0; i < count; ++i) out[i] = items_[(first_ + i) % max_queue_depth];
    first_ = (first_ + count) % max_queue_depth;
    size_ -= count;
    return count;
  }

 private:
  std::array<Completion, max_queue_depth> items_{};
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

template <class T>
class SlotTable {
 public:
  constexpr SlotTable() { clear(); }

  std::size_t size() const noexcept { return used_; }
  // A slot index is below max_queue_depth and in use; anything else came from outside and is to be dropped.
  bool holds(std::uint64_t slot) const noexcept { return slot < max_queue_depth && in_use_[slot]; }
  T& operator[](std::uint64_t slot) noexcept { return items_[slot]; }

  std::size_t take(const T& item) noexcept {
    assert(used_ < max_queue_depth);
    const std::size_t slot = free_[used_++];
    items_[slot] = item;
    in_use_[slot] = true;
    return slot;
  }

  void release(std::uint64_t slot) noexcept {
    assert(holds(slot));
    in_use_[slot] = false;
    free_[--used_] = static_cast<std::uint16_t>(slot);
  }

  constexpr void clear() noexcept {
    used_ = 0;
    for (std::size_t i = 0; i < max_queue_depth; ++i) {
      free_[i] = static_cast<std::uint16_t>(i);
      in_use_[i] = false;
    }
  }

 private:
  std::array<T, max_queue_depth> items_{};
  std::array<std::uint16_t, max_queue_depth> free_{};  // [used_, end): indexes to hand out
  std::array<bool, max_queue_depth> in_use_{};
  std::size_t used_ = 0;
};

}  // namespace terrace::tiers
