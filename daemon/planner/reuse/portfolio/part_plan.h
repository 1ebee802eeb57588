// The best placement of one part so far, and the passes that improve it.
//
// A pass is steered by one number per block, log(life) + b * log(bytes) + noise: b between 0 (longest life
// first) and 1.5 (largest first) covers width, area and size, and what lies between. No order wins on all
// instances, so the first passes walk a grid without noise; later ones draw b, the noise and the strictness at
// random, or disturb what the best pass so far used.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "daemon/planner/reuse/portfolio/parts.h"
#include "daemon/planner/reuse/portfolio/skyline.h"

namespace terrace::planner::portfolio {

class PartPlan {
 public:
  PartPlan(Part part, std::uint64_t seed);
  PartPlan(const PartPlan&) = delete;
  PartPlan& operator=(const PartPlan&) = delete;

  // One pass, towards `capacity_bytes`. True if the best became better.
  bool improve(std::uint64_t capacity_bytes);
  // A placement from elsewhere, offsets by block: taken if better.
  bool offer(const std::vector<std::uint64_t>& offsets);

  const Part& part() const { return part_; }
  std::uint64_t best_bytes() const { return best_bytes_; }  // the highest end; maximal before the first pass
  const std::vector<std::uint64_t>& best_offsets() const { return best_offsets_; }
  std::uint64_t placements() const { return skyline_.placements(); }
  std::uint64_t passes() const { return passes_; }

 private:
  struct Recipe {
    float size_weight = 0;
    bool always_tightest = false;
    bool towards_best = false;   // capacity just under the best, not the bound: looser, another path
    std::vector<float> noise;    // by block; empty: none
  };
  Recipe draw();
  Recipe disturb();
  void apply(const Recipe& recipe);
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  Part part_;
  Skyline skyline_;
  std::mt19937_64 random_;
  std::vector<float> log_life_;
  std::vector<float> log_bytes_;
  std::vector<float> priority_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint64_t> best_offsets_;
  std::uint64_t best_bytes_ = ~std::uint64_t{0};
  std::uint64_t passes_ = 0;
  Recipe best_recipe_;
};

}  // namespace terrace::planner::portfolio
