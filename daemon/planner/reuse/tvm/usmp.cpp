// Orders, checks and the two greedy algorithms with pools.
#include "daemon/planner/reuse/tvm/usmp.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace terrace::planner::tvm {
namespace {

auto size_first(const PoolBuffer& b, std::uint32_t index) {
  return std::make_tuple(b.bytes, b.conflicts.size(), std::cref(b.name), index);
}

auto conflicts_first(const PoolBuffer& b, std::uint32_t index) {
  return std::make_tuple(b.conflicts.size(), b.bytes, std::cref(b.name), index);
}

// Descending by a key that no two buffers share.
template <class Key>
std::vector<std::uint32_t> order_by(PoolBuffers buffers, Key key) {
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return key(buffers[b], b) < key(buffers[a], a); });
  return order;
}

// The lowest offset of buffer b in each pool above all its conflicts that are placed.
std::vector<std::uint64_t> lowest_above(PoolBuffers buffers, Pools pools, const PoolPlacement& placed,
                                        std::uint32_t b) {
  std::vector<std::uint64_t> lowest(pools.size(), 0);
  for (const std::uint32_t c : buffers[b].conflicts) {
    if (placed.pool_of[c] == no_pool) continue;
    const std::uint64_t alignment = std::max(buffers[b].alignment, buffers[c].alignment);
    std::uint64_t& low = lowest[placed.pool_of[c]];
    low = std::max(low, align_up(placed.offsets[c] + buffers[c].bytes, alignment));
  }
  return lowest;
}

Result<PoolPlacement> place_above(PoolBuffers buffers, Pools pools, const std::vector<std::uint32_t>& order) {
  PoolPlacement placement{std::vector<std::uint32_t>(buffers.size(), no_pool),
                          std::vector<std::uint64_t>(buffers.size(), 0)};
  for (const std::uint32_t b : order) {
    const std::vector<std::uint64_t> lowest = lowest_above(buffers, pools, placement, b);
    const auto& wanted = buffers[b].pools;
    const auto pool = std::find_if(wanted.begin(), wanted.end(), [&](std::uint32_t p) {
      return lowest[p] + buffers[b].bytes <= pools[p].capacity_bytes;
    });
    if (pool == wanted.end())
      return refused<PoolPlacement>("no pool has room for buffer " + std::to_string(b) + " " +
                                    buffers[b].name);
    placement.pool_of[b] = *pool;
    placement.offsets[b] = lowest[*pool];
  }
  return ok(std::move(placement));
}

template <class Key>
Result<PoolPlacement> greedy(PoolBuffers buffers, Pools pools, Key key) {
  if (std::string why = refusal(buffers, pools); !why.empty()) return refused<PoolPlacement>(std::move(why));
  return place_above(buffers, pools, order_by(buffers, key));
}

bool all_below(const std::vector<std::uint32_t>& indices, std::size_t end) {
  return std::all_of(indices.begin(), indices.end(), [&](std::uint32_t i) { return i < end; });
}

}  // namespace

std::string refusal(PoolBuffers buffers, Pools pools) {
  Instance sizes;  // its checks of sums and alignments are the same
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const PoolBuffer& b = buffers[i];
    const std::string name = "buffer " + std::to_string(i) + " " + b.name;
    if (b.pools.empty()) return name + " names no pool";
    if (!all_below(b.pools, pools.size())) return name + " names a pool that is not there";
    if (!all_below(b.conflicts, buffers.size())) return name + " conflicts with a buffer that is not there";
    sizes.buffers.push_back({b.bytes, 0, 1, b.alignment, no_tensor});
  }
  return planner::refusal(sizes);
}

std::vector<std::uint32_t> order_by_size(PoolBuffers buffers) { return order_by(buffers, size_first); }

Result<PoolPlacement> greedy_by_size(PoolBuffers buffers, Pools pools) {
  return greedy(buffers, pools, size_first);
}

Result<PoolPlacement> greedy_by_conflicts(PoolBuffers buffers, Pools pools) {
  return greedy(buffers, pools, conflicts_first);
}

std::vector<std::uint64_t> used_bytes(PoolBuffers buffers, Pools pools, const PoolPlacement& placement) {
  std::vector<std::uint64_t> used(pools.size(), 0);
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (placement.pool_of[b] == no_pool) continue;
    std::uint64_t& of_pool = used[placement.pool_of[b]];
    of_pool = std::max(of_pool, placement.offsets[b] + buffers[b].bytes);
  }
  return used;
}

}  // namespace terrace::planner::tvm
