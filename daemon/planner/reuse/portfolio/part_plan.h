// The best placement of one part so far, and the moves that improve it.
//
// A move is a pass of the skyline, a classic greedy order, or, where the part is small enough, a try of the
// exact search. A pass is steered by one number per block, log(life) + b * log(bytes) + noise: b between 0
// (longest life first) and 1.5 (nearly largest first) covers width and area and what lies between. No order
// wins on all instances, so the first passes walk a grid without noise; later ones draw b, the noise and the
// strictness at random, or disturb what the best pass so far used.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "daemon/planner/reuse/portfolio/exact.h"
#include "daemon/planner/reuse/skyline/cut.h"
#include "daemon/planner/reuse/skyline/pass.h"

namespace terrace::planner::portfolio {

class PartPlan {
 public:
  // `stop` may be empty; it must outlive the plan.
  PartPlan(Part part, std::uint64_t seed, const std::function<bool()>& stop);
  PartPlan(const PartPlan&) = delete;
  PartPlan& operator=(const PartPlan&) = delete;

  // The first placement: one pass, whatever `stop` says.
  void begin(std::uint64_t target_bytes);
  // One move, towards `target_bytes`. True if the best became better.
  bool improve(std::uint64_t target_bytes);

  const Part& part() const { return part_; }
  std::uint64_t best_bytes() const { return best_bytes_; }  // the highest end; maximal before begin()
  const std::vector<std::uint64_t>& best_offsets() const { return best_offsets_; }  // by block
  // As low as it can be, or so near that what is left of the rounding is not worth more moves.
  bool settled() const;
  std::uint64_t work() const {
    return work_ + exact_.work();
  }  // in placements of a block by a pass, about 1 us each

 private:
  struct Recipe {
    float size_weight = 0;
    bool always_tightest = false;
    bool towards_best = false;      // capacity just under the best, not the target: looser, another path
    std::vector<float> noise = {};  // by block; empty: none
  };
  bool pass(Recipe recipe, std::uint64_t target_bytes, const std::function<bool()>& stop);
  bool fit();
  bool search(std::uint64_t target_bytes);
  bool is_search_due(std::uint64_t target_bytes) const;
  Recipe draw();
  Recipe disturb();
  void steer(const Recipe& recipe);
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  float noise(double amplitude) { return static_cast<float>((uniform() * 2 - 1) * amplitude); }

  Part part_;
  const std::function<bool()>& stop_;
  skyline::Pass skyline_;
  ExactTries exact_;
  std::mt19937_64 random_;
  std::vector<float> log_life_;
  std::vector<float> log_bytes_;
  std::vector<float> priority_;
  std::vector<std::uint64_t> offsets_;  // of the pass under way
  std::vector<std::uint64_t> best_offsets_;
  std::uint64_t best_bytes_ = ~std::uint64_t{0};
  std::uint64_t bound_bytes_;
  std::uint64_t work_ = 0;
  std::uint32_t passes_ = 0;
  std::uint32_t fits_ = 0;
  Recipe best_recipe_;
};

}  // namespace terrace::planner::portfolio
