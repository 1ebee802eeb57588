// States that are known to be hopeless.
//
// What remains to be solved after some placements is fixed by which buffers are left and how low each may
// lie; how the placements came about no longer matters (a on b, or b on a). A state is kept as a 128-bit
// hash; engine.h says why a failure of such a state holds for every order of the search. Open addressing over
// short probes; grows to 2^20 entries (16 MiB), then overwrites.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace terrace::planner::search {

struct StateHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const StateHash&) const = default;
};

// The part of a state's hash that one buffer left with its lowest offset contributes; parts add up.
StateHash hash_of(std::uint32_t buffer, std::int64_t offset);

inline void add(StateHash& sum, const StateHash& part) {
  sum.low += part.low;
  sum.high += part.high;
}

inline void subtract(StateHash& sum, const StateHash& part) {
  sum.low -= part.low;
  sum.high -= part.high;
}

class FailedStates {
 public:
  FailedStates();
  bool contains(const StateHash& state) const;
  void insert(const StateHash& state);

 private:
  void grow();

  std::vector<StateHash> slots_;  // {0, 0}: free
  std::size_t used_ = 0;
};

}  // namespace terrace::planner::search
