#include "daemon/planner/reuse/allocators/bfc.h"

#include <algorithm>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {

BfcAllocator::BfcAllocator(std::uint64_t limit_bytes)
    : limit_(std::min(limit_bytes, most_request_bytes)),
      next_region_(align_up(std::min(limit_, first_region_bytes), granularity_bytes)) {}

std::optional<std::uint64_t> BfcAllocator::find(std::uint64_t rounded) {
  const Chunks::Handle chunk = chunks_.best_fit(0, rounded);
  if (chunk == Chunks::none) return std::nullopt;
  const std::uint64_t bytes = chunks_.chunk_bytes(chunk);
  return chunks_.take(chunk, rounded, bytes >= rounded * 2 || bytes - rounded >= most_waste_bytes);
}

bool BfcAllocator::extend(std::uint64_t rounded) {
  const std::uint64_t left = (limit_ - chunks_.reserved_bytes()) / granularity_bytes * granularity_bytes;
  if (rounded > left) return false;
  const bool large_enough = rounded <= next_region_;
  while (rounded > next_region_) next_region_ *= 2;
  chunks_.add_region(std::min(next_region_, left), 0);
  if (large_enough) next_region_ *= 2;
  return true;
}

std::optional<std::uint64_t> BfcAllocator::allocate(std::uint64_t bytes) {
  if (bytes > most_request_bytes) return std::nullopt;
  const std::uint64_t rounded = align_up(bytes, granularity_bytes);
  if (const auto address = find(rounded)) return address;
  if (extend(rounded)) return find(rounded);
  const std::uint64_t idle = chunks_.free_region_bytes();
  if (idle == 0 || rounded > limit_ - chunks_.reserved_bytes() + idle) return std::nullopt;
  chunks_.release_free_regions();
  if (!extend(rounded)) return std::nullopt;
  return find(rounded);
}

std::string BfcAllocator::check_invariants() const {
  if (chunks_.reserved_bytes() > limit_) return "the allocator has reserved more than its limit";
  return chunks_.check_invariants();
}

}  // namespace terrace::planner
