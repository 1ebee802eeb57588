// The allocators as policies: the instance is played as the sequence of allocations and frees that a program
// makes, in order of time. At one time what ends is freed first (lives are half-open), by index, and then
// what begins is allocated, by index. total_bytes is what the allocator has reserved at the end: nothing is
// given back without a limit, and none is set.
#include <algorithm>
#include <numeric>

#include "daemon/planner/reuse/allocators/bfc.h"
#include "daemon/planner/reuse/allocators/caching.h"
#include "daemon/planner/reuse/families.h"

namespace terrace::planner {
namespace {

std::vector<std::uint32_t> sorted_by(const std::vector<Buffer>& buffers, std::uint32_t Buffer::*time) {
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return buffers[a].*time < buffers[b].*time; });
  return order;
}

template <class Allocator>
std::string unfit(const Instance& instance) {
  for (std::uint32_t n = 0; n < instance.buffers.size(); ++n) {
    const Buffer& b = instance.buffers[n];
    if (b.alignment > Allocator::granularity_bytes) {
      return std::string(Allocator::title) + " aligns to " + std::to_string(Allocator::granularity_bytes) +
             " bytes; buffer " + std::to_string(n) + " needs " + std::to_string(b.alignment);
    }
  }
  return {};
}

template <class Allocator>
Result<Placement> replay(const Instance& instance, const SearchControl& /*control*/) {
  if (std::string why = unfit<Allocator>(instance); !why.empty()) return refused<Placement>(why);
  const std::vector<Buffer>& buffers = instance.buffers;
  const std::vector<std::uint32_t> begins = sorted_by(buffers, &Buffer::lower);
  const std::vector<std::uint32_t> ends = sorted_by(buffers, &Buffer::upper);
  Allocator allocator;
  Placement placement{std::vector<std::uint64_t>(buffers.size()), 0};
  std::size_t ended = 0;
  for (const std::uint32_t n : begins) {
    for (; buffers[ends[ended]].upper <= buffers[n].lower; ++ended) {
      if (buffers[ends[ended]].bytes > 0) allocator.free(placement.offsets[ends[ended]]);
    }
    if (buffers[n].bytes == 0) continue;
    const auto address = allocator.allocate(buffers[n].bytes);
    if (!address) {
      return refused<Placement>(std::string(Allocator::title) + " has no room for buffer " +
                                std::to_string(n) + " of " + std::to_string(buffers[n].bytes) +
                                " bytes: all would exceed 2^47");
    }
    placement.offsets[n] = *address;
  }
  placement.total_bytes = allocator.chunks().peak_reserved_bytes();
  return ok(std::move(placement));
}

}  // namespace

std::vector<ReusePolicy> allocator_policies() {
  return {{"bfc", "allocator", "TensorFlow, core/common_runtime/bfc_allocator.cc", replay<BfcAllocator>},
          {"pytorch", "allocator", "PyTorch, c10/cuda/CUDACachingAllocator.cpp", replay<CachingAllocator>}};
}

}  // namespace terrace::planner
