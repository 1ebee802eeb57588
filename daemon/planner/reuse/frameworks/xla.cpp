// XLA's GlobalDecreasingSizeBestFitHeap (xla/service/heap_simulator/heap_simulator.cc).
//
// Buffers in one global order: kSpatial by size, then duration; kTemporal by duration, then size; both
// descending, and by index last. Each takes the smallest gap between the chunks alive at some time of its
// life, of equals the lowest, else the place after the last of them: the space there has no end. (In older
// versions, tensorflow@59e708c for one, it ended where the heap ended at the time and could be the smallest.)
// The alignment moves the end of each chunk.
#include <algorithm>
#include <numeric>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

class BestFitHeap {
 public:
  explicit BestFitHeap(std::uint64_t alignment) : alignment_(alignment) {}

  std::uint64_t place(const Buffer& buffer) {
    const std::uint64_t offset = find(buffer);
    end_ = std::max(end_, offset + buffer.bytes);
    placed_.insert_after_equals({offset, offset + buffer.bytes, buffer.lower, buffer.upper});
    return offset;
  }

  [[nodiscard]] std::uint64_t end() const { return end_; }

 private:
  [[nodiscard]] std::uint64_t find(const Buffer& buffer) const {
    std::uint64_t best = 0;
    std::uint64_t best_bytes = ~std::uint64_t{0};
    const auto consider = [&](std::uint64_t begin, std::uint64_t end) {
      if (end - begin < buffer.bytes || end - begin >= best_bytes) return;
      best = begin;
      best_bytes = end - begin;
    };
    std::uint64_t offset = 0;
    for (const Placed::Range& range : placed_.ranges()) {
      if (range.lower >= buffer.upper || buffer.lower >= range.upper) continue;
      if (offset < range.begin) consider(offset, range.begin);
      offset = std::max(offset, align_up(range.end, alignment_));
    }
    return best_bytes == ~std::uint64_t{0} ? offset : best;
  }

  std::uint64_t alignment_;
  std::uint64_t end_ = 0;
  Placed placed_;
};

Result<Placement> place_in_order(const Instance& instance, const SearchControl& control,
                                 const std::vector<std::uint32_t>& order) {
  const Sizes sizes = aligned_sizes(instance);
  BestFitHeap heap(sizes.alignment);
  Placement placement{std::vector<std::uint64_t>(instance.buffers.size()), 0};
  for (const std::uint32_t n : order) {
    if (control.stop && control.stop()) return refused<Placement>("stopped before any placement was found");
    if (instance.buffers[n].bytes > 0) placement.offsets[n] = heap.place(instance.buffers[n]);
  }
  placement.total_bytes = heap.end();
  return ok(std::move(placement));
}

template <class Key>
std::vector<std::uint32_t> descending(const std::vector<Buffer>& buffers, Key key) {
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return key(buffers[a]) > key(buffers[b]); });
  return order;
}

std::uint64_t duration(const Buffer& b) { return b.upper - b.lower; }

}  // namespace

Result<Placement> place_xla_spatial(const Instance& instance, const SearchControl& control) {
  const auto key = [](const Buffer& b) { return std::pair(b.bytes, duration(b)); };
  return place_in_order(instance, control, descending(instance.buffers, key));
}

Result<Placement> place_xla_temporal(const Instance& instance, const SearchControl& control) {
  const auto key = [](const Buffer& b) { return std::pair(duration(b), b.bytes); };
  return place_in_order(instance, control, descending(instance.buffers, key));
}

}  // namespace terrace::planner::frameworks
