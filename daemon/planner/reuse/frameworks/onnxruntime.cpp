// ONNX Runtime's MemPatternPlanner (core/framework/mem_pattern_planner.h, commit 00ca168): allocations and
// frees of one run in execution order; each takes the smallest gap between what is alive that holds it (of
// equals the lowest), else the place after the last. The space above the last is no gap: it has no end.
#include <algorithm>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

struct Block {
  std::uint64_t begin;
  std::uint64_t end;
};

class Pattern {
 public:
  std::uint64_t allocate(std::uint64_t bytes) {
    std::uint64_t current = 0;
    std::uint64_t least_waste = ~std::uint64_t{0};
    std::size_t best = blocks_.size();
    std::uint64_t offset = blocks_.empty() ? 0 : blocks_.back().end;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::uint64_t gap = blocks_[i].begin - current;
      if (gap >= bytes && gap - bytes < least_waste) {
        best = i;
        least_waste = gap - bytes;
        offset = current;
      }
      current = blocks_[i].end;
    }
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(best), {offset, offset + bytes});
    peak_ = std::max(peak_, offset + bytes);
    return offset;
  }

  void free(std::uint64_t offset) {
    blocks_.erase(std::lower_bound(blocks_.begin(), blocks_.end(), offset,
                                   [](const Block& block, std::uint64_t at) { return block.begin < at; }));
  }

  [[nodiscard]] std::uint64_t peak() const { return peak_; }

 private:
  std::vector<Block> blocks_;  // what is alive, by offset
  std::uint64_t peak_ = 0;
};

}  // namespace

Result<Placement> place_onnxruntime(const Instance& instance, const SearchControl& /*control*/) {
  const Sizes sizes = aligned_sizes(instance);
  Pattern pattern;
  Placement placement{std::vector<std::uint64_t>(instance.buffers.size()), 0};
  for (const LifeEvent& event : events_of(instance.buffers)) {
    if (event.begins) {
      placement.offsets[event.buffer] = pattern.allocate(sizes.bytes[event.buffer]);
    } else {
      pattern.free(placement.offsets[event.buffer]);
    }
  }
  placement.total_bytes = pattern.peak();
  return ok(std::move(placement));
}

}  // namespace terrace::planner::frameworks
