#include "daemon/planner/reuse/allocators/caching.h"

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {
namespace {

bool splits(std::uint32_t pool, std::uint64_t rest) {
  return pool == 0 ? rest >= CachingAllocator::granularity_bytes : rest > CachingAllocator::small_bytes;
}

}  // namespace

std::uint64_t CachingAllocator::segment_bytes(std::uint64_t rounded) {
  if (rounded <= small_bytes) return small_segment_bytes;
  if (rounded < own_segment_bytes) return large_segment_bytes;
  return align_up(rounded, own_segment_unit);
}

bool CachingAllocator::add_segment(std::uint64_t rounded, std::uint32_t pool) {
  const std::uint64_t bytes = segment_bytes(rounded);
  if (bytes > limit_ || chunks_.reserved_bytes() > limit_ - bytes) {
    chunks_.release_free_regions();
    if (bytes > limit_ || chunks_.reserved_bytes() > limit_ - bytes) return false;
  }
  chunks_.add_region(bytes, pool);
  return true;
}

std::optional<std::uint64_t> CachingAllocator::allocate(std::uint64_t bytes) {
  if (bytes > most_request_bytes) return std::nullopt;
  const std::uint64_t rounded = align_up(bytes, granularity_bytes);
  const std::uint32_t pool = rounded <= small_bytes ? 0 : 1;
  Chunks::Handle block = chunks_.best_fit(pool, rounded);
  if (block == Chunks::none) {
    if (!add_segment(rounded, pool)) return std::nullopt;
    block = chunks_.best_fit(pool, rounded);
  }
  return chunks_.take(block, rounded, splits(pool, chunks_.chunk_bytes(block) - rounded));
}

std::string CachingAllocator::check_invariants() const {
  if (chunks_.reserved_bytes() > limit_) return "the allocator has reserved more than its limit";
  return chunks_.check_invariants();
}

}  // namespace terrace::planner
