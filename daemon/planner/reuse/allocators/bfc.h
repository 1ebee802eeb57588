// TensorFlow's best-fit-with-coalescing allocator, simulated: which address each request gets, and how much
// the allocator keeps reserved (tensorflow/core/common_runtime/bfc_allocator.cc, commit 010f3ed).
//
//   sizes     rounded up to 256 bytes
//   search    21 bins of 256 B << n, from the request's own bin upwards; inside a bin by size, then address.
//   The
//             bins are ranges of sizes in ascending order, so the first fit of that walk is the best fit of
//             all free chunks, and one ordered set stands for the 21
//   split     if the chunk is at least twice the request, or at least 128 MiB would be wasted
//   growth    a region holds at least 2 MiB at first; the next one is doubled until the request fits, or once
//             if it already did. Regions do not merge (as with cudaMalloc)
//   limit     the last region is what is left; if that is too little, regions that lie idle go back first
#pragma once

#include <optional>

#include "daemon/planner/reuse/allocators/chunks.h"

namespace terrace::planner {

class BfcAllocator {
 public:
  static constexpr std::uint64_t granularity_bytes = 256;
  static constexpr std::uint64_t first_region_bytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t most_waste_bytes = std::uint64_t{128} << 20;
  static constexpr const char* title = "TensorFlow's BFC allocator";

  explicit BfcAllocator(std::uint64_t limit_bytes = most_request_bytes);

  // The address, or nothing if the limit leaves no room. `bytes` > 0.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);

  // False if nothing allocated begins there.
  bool free(std::uint64_t address) { return chunks_.release(address); }

  // What the device would be asked for; how it is cut up.
  [[nodiscard]] const Chunks& chunks() const { return chunks_; }
  [[nodiscard]] std::string check_invariants() const;

 private:
  std::optional<std::uint64_t> find(std::uint64_t rounded);
  bool extend(std::uint64_t rounded);

  Chunks chunks_{1};
  std::uint64_t limit_;
  std::uint64_t next_region_;
};

}  // namespace terrace::planner
