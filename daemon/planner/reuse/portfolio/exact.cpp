#include "daemon/planner/reuse/portfolio/exact.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "daemon/planner/reuse/search/search.h"

namespace terrace::planner::portfolio {
namespace {

constexpr std::size_t most_blocks = 1024;
constexpr std::uint64_t first_nodes = 4096;

bool fits(const Part& part) {
  if (part.blocks.size() > most_blocks) return false;
  return std::all_of(part.blocks.begin(), part.blocks.end(),
                     [&](const Block& b) { return part.floor_bytes % b.alignment == 0; });
}

// A node takes about as long as 5 placements in a pass for 150 blocks, and as 140 for 1,000.
std::uint64_t work_per_node(std::size_t blocks) {
  return std::max<std::uint64_t>(4, std::uint64_t{blocks} * blocks / 8192);
}

}  // namespace

ExactTries::ExactTries(const Part& part, std::uint64_t seed, const std::function<bool()>& stop)
    : floor_bytes_(part.floor_bytes), possible_(fits(part)), seed_(seed), stop_(stop) {
  if (!possible_) return;
  blocks_.resize(part.blocks.size());
  std::iota(blocks_.begin(), blocks_.end(), 0U);
  std::sort(blocks_.begin(), blocks_.end(),
            [&](auto a, auto b) { return part.blocks[a].buffer < part.blocks[b].buffer; });
  for (const std::uint32_t n : blocks_) {
    const Block& b = part.blocks[n];
    instance_.buffers.push_back({b.bytes - b.tail, b.begin, b.end, b.alignment, no_tensor});
  }
}

std::uint64_t ExactTries::luby(std::uint64_t n) {
  const std::uint64_t power = std::bit_floor(n);
  if (n == 2 * power - 1) return power;
  return luby(n - power + 1);
}

ExactTries::Answer ExactTries::look(std::uint64_t low_bytes, std::uint64_t best_bytes) {
  const std::uint64_t open = best_bytes - 1 - low_bytes;
  const std::uint64_t end = low_bytes + (tries_ % 2 == 0 ? 0 : tries_ % 4 == 1 ? open / 2 : open - open / 16);
  const std::uint64_t length = luby(++tries_);
  search::SearchLimits limits;
  limits.nodes = first_nodes * length;
  limits.stop = stop_;
  limits.seed = length > longest_ ? 0 : seed_ + tries_;
  longest_ = std::max(longest_, length);
  search::SearchResult result = search::solve(instance_, end - floor_bytes_, limits);
  work_ += (result.nodes + 16) * work_per_node(instance_.buffers.size());
  if (result.verdict == search::Verdict::infeasible) return {std::nullopt, end + 1};
  if (result.verdict != search::Verdict::found) return {};
  std::vector<std::uint64_t> offsets(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    offsets[blocks_[i]] = result.placement.offsets[i] + floor_bytes_;
  }
  return {std::move(offsets), 0};
}

}  // namespace terrace::planner::portfolio
