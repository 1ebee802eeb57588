// Restarts: a part is searched in rounds, one order after another, with a growing number of nodes.
//
// MiniMalloc goes round WAT, TAW and TWA. Here one static order begins and all others go by activity, which
// changes with every failure. Rounds were compared on MiniMalloc's suite with its buffers shuffled and time
// reversed: this one solved all of it, those with more static orders now and then left I open. What failed
// stays remembered from one restart to the next, so that no round repeats the one before.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/reuse/search/engine.h"

namespace terrace::planner::search {

class PartSearch {
 public:
  // `problem` and `limits` must outlive it.
  PartSearch(const Problem& problem, std::int64_t capacity, const SearchLimits& limits);

  Verdict run();
  // After `found`: per item of the problem.
  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  std::uint64_t nodes() const { return budget_.used(); }
  bool asked_to_stop() const { return budget_.asked_to_stop(); }

 private:
  Verdict round(const char* keys, std::uint64_t nodes);

  const Problem& problem_;
  const SearchLimits& limits_;
  std::int64_t capacity_;
  Budget budget_;
  Activity activity_;
  FailedStates failed_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace terrace::planner::search
