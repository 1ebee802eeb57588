#include "daemon/planner/reuse/portfolio/part_plan.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace terrace::planner::portfolio {
namespace {

constexpr std::array<float, 6> grid{0.0F, 0.2F, 1.0F, 0.6F, 1.5F, 20.0F};  // 20: by size alone

}  // namespace

PartPlan::PartPlan(Part part, std::uint64_t seed)
    : part_(std::move(part)), skyline_(part_), random_(seed), priority_(part_.blocks.size()) {
  for (const Block& b : part_.blocks) {
    log_life_.push_back(static_cast<float>(std::log(static_cast<double>(b.upper - b.lower))));
    log_bytes_.push_back(static_cast<float>(std::log(static_cast<double>(b.bytes))));
  }
}

bool PartPlan::improve(std::uint64_t capacity_bytes) {
  Recipe recipe;
  const std::uint64_t pass = passes_++;
  if (pass < grid.size() * 2) {
    recipe = {grid[pass / 2], pass % 2 == 1, false, {}};
  } else {
    recipe = pass % 2 == 0 ? draw() : disturb();
  }
  apply(recipe);
  const std::uint64_t capacity = recipe.towards_best ? best_bytes_ - 1 : capacity_bytes;
  const std::optional<std::uint64_t> top =
      skyline_.place({capacity, best_bytes_, recipe.always_tightest, priority_}, &offsets_);
  if (!top) return false;
  best_bytes_ = *top;
  best_offsets_.swap(offsets_);
  best_recipe_ = std::move(recipe);
  return true;
}

bool PartPlan::offer(const std::vector<std::uint64_t>& offsets) {
  std::uint64_t top = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) top = std::max(top, offsets[i] + part_.blocks[i].bytes);
  if (top >= best_bytes_) return false;
  best_bytes_ = top;
  best_offsets_ = offsets;
  return true;
}

PartPlan::Recipe PartPlan::draw() {
  Recipe recipe{static_cast<float>(uniform() * 1.5), uniform() < 0.5, uniform() < 0.25, {}};
  const double amplitude = uniform() < 0.3 ? 0 : uniform();
  if (amplitude == 0) return recipe;
  recipe.noise.resize(part_.blocks.size());
  for (float& n : recipe.noise) n = static_cast<float>((uniform() * 2 - 1) * amplitude);
  return recipe;
}

// The best recipe with other noise for some of the blocks.
PartPlan::Recipe PartPlan::disturb() {
  Recipe recipe = best_recipe_;
  recipe.noise.resize(part_.blocks.size());
  const double share = std::pow(0.5, uniform() * 8);
  const double amplitude = uniform();
  for (float& n : recipe.noise) {
    if (uniform() < share) n = static_cast<float>((uniform() * 2 - 1) * amplitude);
  }
  if (uniform() < 0.1) recipe.always_tightest = !recipe.always_tightest;
  return recipe;
}

void PartPlan::apply(const Recipe& recipe) {
  for (std::size_t i = 0; i < priority_.size(); ++i) {
    priority_[i] = log_life_[i] + recipe.size_weight * log_bytes_[i];
  }
  for (std::size_t i = 0; i < recipe.noise.size(); ++i) priority_[i] += recipe.noise[i];
}

}  // namespace terrace::planner::portfolio
