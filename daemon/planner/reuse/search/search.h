// Exact search: does a placement of these buffers within this capacity exist, and which?
//
// For instances that are small and hard: on-chip memories filled to the last kilobyte, or the part
// around the peak of a large one. The method is MiniMalloc's (Moffitt, ASPLOS'23 vol 4), read as constraint
// propagation and made to learn from failure; engine.h tells how. `infeasible` is a proof, but for one thing:
// hopeless states are recognised by a 128-bit hash, so two states that collide could forge it (chance
// below 2^-80 per search if the hash is as good as random). A placement that is found is always right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::search {

// One part (skyline/cut.h) with more buffers than this is not searched: memory and time per
// step grow with it, and exact search has no hope there. solve() answers `stopped`.
inline constexpr std::size_t most_buffers = 4096;

struct SearchLimits {
  std::uint64_t nodes = std::numeric_limits<std::uint64_t>::max();  // placements and raises tried, in all
  std::function<bool()> stop;  // asked every 1,024 nodes or more often; empty: never
  std::uint64_t seed = 0;      // order among buffers that are otherwise equal; 0: as in the instance
};

enum class Verdict { found, infeasible, stopped };

struct SearchResult {
  Verdict verdict = Verdict::stopped;
  Placement placement;      // complete if found, else empty
  std::uint64_t nodes = 0;  // what was spent of SearchLimits::nodes
};

// Pure and deterministic for (instance, capacity, nodes, seed) as long as `stop` says no. Alignments are
// respected. Time per node is linear in the buffers of a part; memory at most quadratic in them.
SearchResult solve(const Instance& instance, std::uint64_t capacity_bytes, const SearchLimits& limits = {});

}  // namespace terrace::planner::search
