// Dynamic Tensor Rematerialization: what happens when a runtime evicts under pressure and recomputes on need.
//
// Kirisame et al., ICLR 2021. The operations of a step run in their order. Before one runs, all that it reads
// is locked; what was evicted is made again first, by the operation that made it, whose own inputs may have
// to be made again, too, and so on. When room is short, the unlocked storage with the least value of a
// heuristic goes, until there is enough:
//
//     c   cost of the operation that made it     b   its bytes     a   time since it was last used
//     e+  cost of all that was evicted and leads to it through evicted storages only
//     e-  likewise of what was made from it
//
//     h_DTR        (c + e+ + e-) / (b a)    with the "evicted neighbourhood" e*
//     h_DTR-eq     (c + classes) / (b a)    classes of neighbouring evicted storages, kept by union-find;
//                                           what comes back is subtracted, never split off (appendix,
//                                           "equivalence classes")
//     h_DTR-local  c / (b a)
//     h_LRU        1 / a
//     h_size       1 / b
//     h_MSPS       (c + e+) / b             Capuchin's rule (Peng et al., ASPLOS 2020)
//     h_random     a draw
//     h_Coop       (c + classes) / a        of a row of neighbours the sum: coop.h
//
// What nobody will read again is evicted at once ("eager eviction"), here after its last reader. It may come
// back when something that came from it is made again, and then waits for eviction like everything else.
// Banishing, the paper's other rule, is not modelled: the published figures are with eager eviction.
//
// Ties, the order in which inputs come back, and when a use counts follow simrd (runtime/v2.py,
// RuntimeV2EagerOptimized of uwsampl/dtr-prototype@eff53cc), so that both can be compared. Candidates are all
// looked at, as there: the prototype's sampling is not modelled.
//
// Room is counted in bytes, as simrd does, or in addresses: then each result needs its bytes in a row, and
// what goes gives back just its own (placing.h).
//
// Pure and deterministic. Work is bounded: recomputing more than `most_recomputing` steps' worth ends it (the
// paper's "thrashing"), and so does a number of moves.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/planner/recompute/schedule.h"

namespace terrace::planner::recompute {

enum class HeuristicKind : std::uint8_t { dtr, dtr_eq, dtr_local, lru, size, msps, random, coop };

enum class Space : std::uint8_t {
  bytes,      // enough bytes are enough
  addresses,  // in a row; one after the other goes by the heuristic until there is such a row
  windows     // in a row; the cheapest row goes: Coop
};

struct NamedHeuristic {
  std::string_view name;  // as the paper says it: h_DTR
  HeuristicKind kind;
};
const std::vector<NamedHeuristic>& dtr_heuristics();  // of DTR's paper

struct DtrOptions {
  HeuristicKind heuristic = HeuristicKind::dtr;
  std::uint64_t budget_bytes = 0;
  std::uint64_t seed = 0;       // of h_random
  double most_recomputing = 1;  // in costs of a step
  std::size_t most_moves = 4'000'000;
  Space space = Space::bytes;
};

enum class DtrOutcome : std::uint8_t { finished, out_of_memory, thrashing };

struct DtrReport {
  DtrOutcome outcome = DtrOutcome::finished;  // what follows holds for the part that ran
  std::int64_t cost_ns = 0;
  std::uint64_t peak_bytes = 0;
  std::uint32_t evictions = 0;  // for want of room
  std::uint32_t releases = 0;   // after the last use
  std::uint32_t recomputations = 0;
  Schedule schedule;  // what was done; for check_schedule()
  // With addresses: for each run, in the order of the schedule, where the block of each of its results
  // begins, and then that of its workspace, from the end of the constants on; of 0 bytes there is none.
  std::vector<std::uint64_t> addresses;
};

// Evaluates the heuristic for every candidate at every eviction; h_DTR and h_MSPS search what was evicted
// around those whose surroundings changed.
DtrReport run_dtr(const Step& step, const DtrOptions& options);

}  // namespace terrace::planner::recompute
