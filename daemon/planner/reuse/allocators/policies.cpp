// The allocators as policies: the instance is played as the sequence of allocations and frees that a program
// makes, in order of time. At one time what ends is freed first (lives are half-open), by index, and then
// what begins is allocated, by index. total_bytes is what the allocator has reserved at the end: nothing is
// given back without a limit, and none is set.
#include "daemon/planner/reuse/allocators/bfc.h"
#include "daemon/planner/reuse/allocators/caching.h"
#include "daemon/planner/reuse/families.h"

namespace terrace::planner {
namespace {

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
  Allocator allocator;
  Placement placement{std::vector<std::uint64_t>(instance.buffers.size()), 0};
  for (const LifeEvent& event : events_of(instance.buffers)) {
    std::uint64_t& offset = placement.offsets[event.buffer];
    if (!event.begins) {
      allocator.free(offset);
      continue;
    }
    const std::uint64_t bytes = instance.buffers[event.buffer].bytes;
    const auto address = allocator.allocate(bytes);
    if (!address) {
      return refused<Placement>(std::string(Allocator::title) + " has no room for buffer " +
                                std::to_string(event.buffer) + " of " + std::to_string(bytes) +
                                " bytes: all would exceed 2^47");
    }
    offset = *address;
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
