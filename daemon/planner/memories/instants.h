// The operations at which a programme looks at the fast memory's room.
//
// What lives at an operation where nothing ends lives at the next one that something ends at, too; so only
// the last operation before each run of births counts. Of more than `most` of those, of each equal share the
// fullest: leaving out the others only takes conditions away.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/planner/memories/step.h"

namespace terrace::planner::memories {

inline std::vector<std::uint32_t> instants_of(const Step& step, std::size_t most) {
  std::vector<bool> born(step.ops.size(), false), ends(step.ops.size(), false);
  for (const Tensor& t : step.tensors) {
    if (t.persistent || t.uses.empty()) continue;
    born[t.first] = ends[t.last] = true;
  }
  std::vector<std::uint32_t> all;
  bool grew = true;
  for (std::uint32_t op = 0; op < step.ops.size(); ++op) {
    grew = grew || born[op];
    if (!(grew && ends[op])) continue;
    all.push_back(op);
    grew = false;
  }
  if (grew) all.push_back(static_cast<std::uint32_t>(step.ops.size()) - 1);
  if (all.size() <= most) return all;
  const std::vector<std::uint64_t> live = step.live_bytes();
  std::vector<std::uint32_t> fullest;
  for (std::size_t share = 0; share < most; ++share) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(share * all.size() / most);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>((share + 1) * all.size() / most);
    fullest.push_back(
        *std::max_element(begin, end, [&](std::uint32_t a, std::uint32_t b) { return live[a] < live[b]; }));
  }
  return fullest;
}

}  // namespace terrace::planner::memories
