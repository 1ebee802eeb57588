// What both solvers of MINCOSTFLOW share: who may follow whom in one object.
#pragma once

#include <optional>
#include <vector>

#include "daemon/planner/reuse/tflite/in_use.h"
#include "daemon/planner/reuse/tflite/strategies.h"

namespace terrace::planner::tflite {

// For each record the records that ended before it begins, in the order in which they ended (ties to the
// smaller index): a prefix of `ended`, `count_of[record]` long.
struct Finished {
  std::vector<std::uint32_t> ended;
  std::vector<std::uint32_t> count_of;
};

inline Finished finished_before(Records records) {
  Finished finished;
  InUse in_use;
  for (std::uint32_t r = 0; r < records.size(); ++r) {
    in_use.release_before(records[r].first_task, [&](std::uint32_t old) { finished.ended.push_back(old); });
    in_use.push(records[r].last_task, r);
    finished.count_of.push_back(static_cast<std::uint32_t>(finished.ended.size()));
  }
  return finished;
}

// What it costs to let `next` follow `old`: the growth.
inline std::int64_t growth(const Record& old, const Record& next) {
  return next.size > old.size ? static_cast<std::int64_t>(next.size - old.size) : 0;
}

// Objects from chains: successor[r] is the record that follows r in its object, or `unassigned`. Ids in the
// order of the chains' first records.
Objects objects_of_chains(Records records, const std::vector<std::uint32_t>& successor);

// The flow's chains as TFLite finds them. O(n * arcs) and more.
Objects shortest_path_flow(Records records, const Finished& finished);

// The same cost by LEMON's network simplex; nothing if it finds no optimum, which only broken arithmetic
// could cause.
std::optional<Objects> network_simplex_flow(Records records, const Finished& finished);

}  // namespace terrace::planner::tflite
