#include "daemon/planner/reuse/portfolio/fit.h"

#include <algorithm>
#include <numeric>

#include "daemon/planner/load_tree.h"

namespace terrace::planner::portfolio {
namespace {

struct Placed {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t lower;
  std::uint32_t upper;
};

std::vector<std::uint64_t> breadths(const Part& part) {
  std::vector<std::uint64_t> load(part.sections + 1);
  for (const Block& b : part.blocks) {
    load[b.lower] += b.bytes;
    load[b.upper] -= b.bytes;
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  LoadTree tree;
  tree.reset(load);
  std::vector<std::uint64_t> breadth;
  for (const Block& b : part.blocks) breadth.push_back(tree.peak(b.lower, b.upper).bytes);
  return breadth;
}

// Blocks that begin before a block's end, less those that have ended at its begin.
std::vector<std::uint64_t> conflicts(const Part& part) {
  std::vector<std::uint64_t> begun(part.sections + 1);
  std::vector<std::uint64_t> ended(part.sections + 1);
  for (const Block& b : part.blocks) {
    ++begun[b.lower + 1];
    ++ended[b.upper];
  }
  std::partial_sum(begun.begin(), begun.end(), begun.begin());
  std::partial_sum(ended.begin(), ended.end(), ended.begin());
  std::vector<std::uint64_t> count;
  for (const Block& b : part.blocks) count.push_back(begun[b.upper] - ended[b.lower] - 1);
  return count;
}

std::vector<std::uint64_t> keys_of(const Part& part, FitOrder order) {
  if (order == FitOrder::breadth) return breadths(part);
  if (order == FitOrder::conflicts) return conflicts(part);
  std::vector<std::uint64_t> keys;
  for (const Block& b : part.blocks) {
    const std::uint64_t width = b.upper - b.lower;
    // The sum of all sizes fits 62 bits, but size times width may not: 2^62 is then as large as any.
    const std::uint64_t area =
        b.bytes > (std::uint64_t{1} << 62) / width ? std::uint64_t{1} << 62 : b.bytes * width;
    keys.push_back(order == FitOrder::size    ? b.bytes
                   : order == FitOrder::width ? width
                   : order == FitOrder::area  ? area
                                              : part.sections - b.lower);
  }
  return keys;
}

// Where the block goes among what is placed; *walked counts.
std::uint64_t gap_for(const Block& block, const std::vector<Placed>& placed, std::uint64_t floor, bool best,
                      std::uint64_t* walked) {
  std::uint64_t found = ~std::uint64_t{0};
  std::uint64_t smallest = ~std::uint64_t{0};
  std::uint64_t free = align_up(floor, block.alignment);
  for (const Placed& p : placed) {
    ++*walked;
    if (p.lower >= block.upper || p.upper <= block.lower) continue;
    if (p.begin >= free + block.bytes && p.begin - free < smallest) {
      if (!best) return free;
      smallest = p.begin - free;
      found = free;
    }
    free = std::max(free, align_up(p.end, block.alignment));
  }
  return smallest != ~std::uint64_t{0} ? found : free;
}

}  // namespace

std::vector<std::uint32_t> order_of(const Part& part, FitOrder order) {
  const std::vector<std::uint64_t> keys = keys_of(part, order);
  std::vector<std::uint32_t> blocks(part.blocks.size());
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::sort(blocks.begin(), blocks.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (keys[a] != keys[b]) return keys[a] > keys[b];
    const Block& x = part.blocks[a];
    const Block& y = part.blocks[b];
    if (x.bytes != y.bytes && order != FitOrder::birth) return x.bytes > y.bytes;
    return x.buffer < y.buffer;
  });
  return blocks;
}

Fit fit_in_order(const Part& part, const std::vector<std::uint32_t>& order, bool best,
                 const FitLimits& limits) {
  Fit fit{std::nullopt, std::vector<std::uint64_t>(part.blocks.size()), 0};
  std::vector<Placed> placed;
  placed.reserve(order.size());
  std::uint64_t top = part.floor_bytes;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i % 256 == 255 && limits.stop != nullptr && *limits.stop && (*limits.stop)()) return fit;
    const Block& b = part.blocks[order[i]];
    const std::uint64_t offset = gap_for(b, placed, part.floor_bytes, best, &fit.walked);
    top = std::max(top, b.end_at(offset));
    if (top >= limits.cutoff_bytes) return fit;
    fit.offsets[order[i]] = offset;
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [](std::uint64_t o, const Placed& p) { return o < p.begin; });
    placed.insert(at, {offset, offset + b.bytes, b.lower, b.upper});
  }
  fit.top_bytes = top;
  return fit;
}

}  // namespace terrace::planner::portfolio
