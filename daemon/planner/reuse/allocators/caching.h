// PyTorch's CUDA caching allocator, simulated for one stream: which address each request gets, and how much
// it keeps reserved (c10/cuda/CUDACachingAllocator.cpp, default configuration).
//
//   sizes     rounded up to 512 bytes
//   pools     up to 1 MiB from segments of 2 MiB; above, from segments of 20 MiB below 10 MiB, and of the
//             size rounded up to 2 MiB from 10 MiB on. A pool never serves the other's requests
//   search    smallest free block of the pool that fits, then lowest address
//   split     small pool: if 512 bytes or more remain; large pool: if more than 1 MiB remains
//   limit     where a new segment would exceed it, every segment without a block in use is given back first
//             (release_cached_blocks), then it is tried once more
//
// What PyTorch calls "reserved" is chunks().reserved_bytes(), and "allocated" chunks().allocated_bytes():
// whole blocks, with what was not split off.
#pragma once

#include <optional>

#include "daemon/planner/reuse/allocators/chunks.h"

namespace terrace::planner {

class CachingAllocator {
 public:
  static constexpr std::uint64_t granularity_bytes = 512;
  static constexpr std::uint64_t small_bytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t small_segment_bytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t large_segment_bytes = std::uint64_t{20} << 20;
  static constexpr std::uint64_t own_segment_bytes = std::uint64_t{10} << 20;  // from here on, its own
  static constexpr std::uint64_t own_segment_unit = std::uint64_t{2} << 20;
  static constexpr const char* title = "PyTorch's caching allocator";

  explicit CachingAllocator(std::uint64_t limit_bytes = most_request_bytes) : limit_(limit_bytes) {}

  // The address, or nothing if the limit leaves no room. `bytes` > 0.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);

  // False if nothing allocated begins there.
  bool free(std::uint64_t address) { return chunks_.release(address); }

  // torch.cuda.empty_cache(): gives back the segments without a block in use; returns the bytes.
  std::uint64_t empty_cache() { return chunks_.release_free_regions(); }

  [[nodiscard]] const Chunks& chunks() const { return chunks_; }
  [[nodiscard]] std::string check_invariants() const;

  // The segment that a request of `rounded` bytes brings about.
  static std::uint64_t segment_bytes(std::uint64_t rounded);

 private:
  bool add_segment(std::uint64_t rounded, std::uint32_t pool);

  Chunks chunks_{2};  // pool 0: small, 1: large
  std::uint64_t limit_;
};

}  // namespace terrace::planner
