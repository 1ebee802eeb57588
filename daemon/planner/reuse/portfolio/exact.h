// Tries of the exact search (reuse/search/) on a part that is small enough.
//
// Whether a search succeeds soon depends much on the order among equals, so that many short ones with
// different seeds find more than a long one: the lengths are Luby's, 1 1 2 1 1 2 4 …, the best where nothing
// is known (Luby, Sinclair, Zuckerman 1993). Of each new length the first try is at the natural order. Every
// other try asks for the target itself, those between for the middle of what is open, which either lowers the
// best or raises the bound, and for a little less than the best.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/reuse/search/problem.h"
#include "daemon/planner/reuse/skyline/cut.h"

namespace terrace::planner::portfolio {

using skyline::Block;
using skyline::Part;

class ExactTries {
 public:
  // `stop` may be empty; it must outlive this.
  ExactTries(const Part& part, std::uint64_t seed, const std::function<bool()>& stop);

  // False for parts that are too large.
  bool possible() const { return possible_; }

  struct Answer {
    std::optional<std::vector<std::uint64_t>> offsets;  // by block, of a placement below `best_bytes`
    std::uint64_t bound_bytes = 0;                      // no placement ends lower
  };
  // Looks for a placement that ends in [low_bytes, best_bytes), preferably at low_bytes; low < best.
  Answer look(std::uint64_t low_bytes, std::uint64_t best_bytes);

  // The n-th of Luby's lengths, from n = 1 on.
  static std::uint64_t luby(std::uint64_t n);

  std::uint64_t work() const { return work_; }  // in the unit of PartPlan::work()

 private:
  std::uint64_t floor_bytes_;
  bool possible_;
  search::Problem problem_;  // empty if it is not possible
  std::uint64_t seed_;
  const std::function<bool()>& stop_;
  std::uint64_t tries_ = 0;
  std::uint64_t longest_ = 0;  // of Luby's lengths so far
  std::uint64_t work_ = 0;
};

}  // namespace terrace::planner::portfolio
