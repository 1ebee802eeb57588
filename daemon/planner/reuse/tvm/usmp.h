// TVM's unified static memory planner (USMP): buffers with lists of those they must not overlap, and pools in
// the order in which each buffer would like them.
//
// Source: apache/tvm branch v0.15.0, src/tir/usmp/algo/{greedy,hill_climb}.cc. Where several buffers are
// equal in all else, the name that sorts last goes first; ours add the index, so that the order is total.
//
// One fault of the original is not kept: in its greedy algorithms a pool that has become too small for a
// buffer comes back when a later conflict in that pool would leave room, and the buffer then overlaps the
// earlier conflict. Here such a pool stays out.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::tvm {

inline constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint32_t no_pool = 0xffffffffU;

struct Pool {
  std::uint64_t capacity_bytes = unbounded;
};

struct PoolBuffer {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 1;  // a power of two
  std::vector<std::uint32_t>
      conflicts;                     // indices of buffers; need not be symmetric: what stands here is heeded
  std::vector<std::uint32_t> pools;  // indices of pools, the preferred one first; at least one
};

struct PoolPlacement {
  std::vector<std::uint32_t> pool_of;  // one per buffer
  std::vector<std::uint64_t> offsets;  // within the pool
};

using PoolBuffers = std::span<const PoolBuffer>;
using Pools = std::span<const Pool>;

// Largest (then most conflicts) first, or most conflicts (then largest) first, above the highest conflicting
// buffer that is placed, in the first pool that has room: gaps are not filled. Refuses when a buffer fits no
// pool, and input that breaks the contract above.
Result<PoolPlacement> greedy_by_size(PoolBuffers buffers, Pools pools);
Result<PoolPlacement> greedy_by_conflicts(PoolBuffers buffers, Pools pools);

// 500 attempts of simulated annealing over the order of a greedy algorithm that does fill gaps: each swaps
// two neighbours of a buffer at the top of a pool. Ends early when all pools together need no more than
// `enough_bytes` or when stopped; control.seed starts rand_r (TVM: 0). Like the original it returns the last
// order that was accepted, which is not always the best one seen. O(attempts * conflicts).
Result<PoolPlacement> hill_climb(PoolBuffers buffers, Pools pools, std::uint64_t enough_bytes,
                                 const SearchControl& control);

// The highest end in each pool.
std::vector<std::uint64_t> used_bytes(PoolBuffers buffers, Pools pools, const PoolPlacement& placement);

// Why these buffers cannot be planned; empty if they can. O(conflicts).
std::string refusal(PoolBuffers buffers, Pools pools);

// Indices of the buffers, largest first, then most conflicts, then name and index, both descending.
std::vector<std::uint32_t> order_by_size(PoolBuffers buffers);

}  // namespace terrace::planner::tvm
