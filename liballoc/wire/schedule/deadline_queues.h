// Who waits for which lane, in the order in which they may move: one binary heap for each lane, over memory
// that the caller gives.
//
// A lane is one direction of one link. A node waits in at most one lane at a time; nodes are small numbers
// that their owner gives a meaning. Urgent ones come first, then by `rank` (a deadline, or the same for all),
// then who came first: with equal ranks a lane is a FIFO. As a node waits once, no lane can overflow.
// Nothing here allocates, throws or waits. Everything is O(log n) but what says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace terrace::wire {

class DeadlineQueues {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  // Bytes of memory for so many of both. The memory must be aligned to 8, and outlive the queues.
  static std::size_t memory_bytes(std::uint32_t lanes, std::uint32_t nodes) noexcept;
  DeadlineQueues(std::uint32_t lanes, std::uint32_t nodes, std::byte* memory) noexcept;  // O(lanes + nodes)

  // The node must not wait yet.
  void push(std::uint32_t lane, std::uint32_t node, std::uint64_t rank, bool urgent) noexcept;
  void remove(std::uint32_t node) noexcept;  // nothing if it does not wait
  void clear() noexcept;                     // O(lanes + waiting)

  bool waits(std::uint32_t node) const noexcept { return place_[node] != none; }
  std::uint32_t lane_of(std::uint32_t node) const noexcept { return lane_[node]; }  // of one that waits
  bool is_urgent(std::uint32_t node) const noexcept { return keys_[node].number < not_urgent; }  // likewise
  std::uint32_t front(std::uint32_t lane) const noexcept;  // O(1); none: empty
  std::uint32_t size(std::uint32_t lane) const noexcept { return sizes_[lane]; }
  // All that wait in a lane, in no order; good until the next change.
  std::span<const std::uint32_t> waiting(std::uint32_t lane) const noexcept {
    return {heap_of(lane), sizes_[lane]};
  }

 private:
  static constexpr std::uint64_t not_urgent = std::uint64_t{1} << 63;
  struct Key {
    std::uint64_t rank;
    std::uint64_t number;  // grows; from `not_urgent` on for those that are not
  };

  std::uint32_t* heap_of(std::uint32_t lane) const noexcept { return heaps_ + std::size_t{lane} * nodes_; }
  bool is_before(std::uint32_t a, std::uint32_t b) const noexcept;
  void set(std::uint32_t* heap, std::uint32_t at, std::uint32_t node) noexcept;
  void rise(std::uint32_t* heap, std::uint32_t at) noexcept;
  void sink(std::uint32_t* heap, std::uint32_t at, std::uint32_t size) noexcept;

  std::uint32_t lanes_, nodes_;
  Key* keys_;             // by node; those of nodes that do not wait mean nothing
  std::uint32_t* sizes_;  // by lane
  std::uint32_t* place_;  // by node: in its lane's heap, or none
  std::uint32_t* lane_;   // by node
  std::uint32_t* heaps_;  // nodes_ for each lane
  std::uint64_t last_number_ = 0;
};

}  // namespace terrace::wire
