// One way of an emulated link between host and device: a set bandwidth that all copies of that way share.
//
// Time on the link is booked in slots, one behind another, so that it never carries more than its bandwidth.
// A copy books a chunk at a time and sleeps until the chunk's slot is over: copies of several streams
// therefore interleave, each getting its share.
//
//   link    │ A0 │ B0 │ A1 │ B1 │ A2 │ A3 │      copies A and B in two streams; a slot is chunk / bandwidth
//
// A copy asks for its next slot at the end of its last one, not at the moment when it woke up: sleeping too
// long costs no bandwidth, as a DMA engine does not pause because the host looks late.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace terrace::tiers::gpu {

class EmulatedLink {
 public:
  // Bytes a second, 0: as fast as memory is; nanoseconds added to every copy, during which the link is free.
  EmulatedLink(std::uint64_t bytes_per_s, std::uint64_t latency_ns) noexcept
      : bytes_per_s_(bytes_per_s), latency_ns_(latency_ns) {}

  // The end of the first free slot for `bytes` (at most largest_chunk) that begins at `from_ns` or later.
  std::uint64_t book(std::uint64_t from_ns, std::uint64_t bytes) noexcept;
  // How much one slot carries: about a tenth of a millisecond's worth, from 4 KiB to largest_chunk.
  std::uint64_t chunk_bytes() const noexcept;
  // Copies, and returns when the link would have brought it. Any thread.
  void copy(void* to, const void* from, std::uint64_t bytes) noexcept;
  // The same of bytes that were moved before.
  void occupy(std::uint64_t bytes) noexcept;

  bool is_paced() const noexcept { return bytes_per_s_ != 0 || latency_ns_ != 0; }
  std::uint64_t moved_bytes() const noexcept { return moved_bytes_.load(std::memory_order_relaxed); }

  static constexpr std::uint64_t largest_chunk = std::uint64_t{1} << 20;

 private:
  template <class Move>
  void carry(std::uint64_t bytes, const Move& move) noexcept;

  const std::uint64_t bytes_per_s_;
  const std::uint64_t latency_ns_;
  std::mutex mutex_;
  std::uint64_t free_at_ns_ = 0;  // guarded by mutex_: when the last slot is over
  std::atomic<std::uint64_t> moved_bytes_{0};
};

}  // namespace terrace::tiers::gpu
