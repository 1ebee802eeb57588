// IREE's packing of static slices (Stream/Transforms/LayoutSlices.cpp, commit 0ca4f62): TFLite's arena in
// program order, which here is the order of the buffers.
//
// Each slice takes a gap among the reservations it meets in time: the gap is measured from its aligned begin
// when compared with the best so far, but kept from its unaligned begin. That is copied, though it shows only
// where sizes are rounded less than offsets, and here both are rounded alike. A reservation goes in front of
// those at its own offset.
#include <algorithm>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

constexpr std::uint64_t unassigned = ~std::uint64_t{0};

std::uint64_t find(const Placed& placed, const Buffer& slice, std::uint64_t bytes, std::uint64_t alignment) {
  std::uint64_t best = unassigned;
  std::uint64_t best_fit = unassigned;
  std::uint64_t current = 0;
  for (const Placed::Range& range : placed.ranges()) {
    if (range.lower >= slice.upper || slice.lower >= range.upper) continue;
    const std::uint64_t aligned = align_up(current, alignment);
    if (aligned + bytes <= range.begin && range.begin - aligned < best_fit) {
      best = aligned;
      best_fit = range.begin - current;
    }
    current = std::max(current, range.end);
  }
  return best == unassigned ? align_up(current, alignment) : best;
}

}  // namespace

Result<Placement> place_iree(const Instance& instance, const SearchControl& control) {
  const Sizes sizes = aligned_sizes(instance);
  Placed placed;
  Placement placement{std::vector<std::uint64_t>(instance.buffers.size()), 0};
  for (std::size_t n = 0; n < instance.buffers.size(); ++n) {
    if (control.stop && control.stop()) return refused<Placement>("stopped before any placement was found");
    const Buffer& slice = instance.buffers[n];
    if (slice.bytes == 0) continue;
    const std::uint64_t offset = find(placed, slice, sizes.bytes[n], sizes.alignment);
    placement.offsets[n] = offset;
    placed.insert_before_equals({offset, offset + sizes.bytes[n], slice.lower, slice.upper});
    placement.total_bytes = std::max(placement.total_bytes, offset + sizes.bytes[n]);
  }
  return ok(std::move(placement));
}

}  // namespace terrace::planner::frameworks
