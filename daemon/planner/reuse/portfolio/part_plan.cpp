#include "daemon/planner/reuse/portfolio/part_plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "daemon/planner/reuse/portfolio/fit.h"

namespace terrace::planner::portfolio {
namespace {

const std::function<bool()> never;

// Weights of size in the first passes, each once with either strictness; 20 is size alone.
constexpr std::array<float, 6> grid{0.0F, 0.2F, 1.0F, 0.6F, 1.5F, 20.0F};
constexpr std::uint32_t grid_passes = grid.size() * 2;

// After the grid one move in so many is a classic order, until each had its turn: they cost O(n^2).
constexpr std::uint32_t passes_per_fit = 4;
// Looking at a placed block takes about 1 ns, a placement in a pass about 1 us.
constexpr std::uint64_t looks_per_work = 1024;
// What is spent at most on the last bytes, those below one alignment.
constexpr std::uint64_t work_on_rounding = 1U << 18;
// The exact search, where it is possible, gets so many times the work of all else: it is the stronger one.
constexpr std::uint64_t search_share = 3;

}  // namespace

PartPlan::PartPlan(Part part, std::uint64_t seed, const std::function<bool()>& stop)
    : part_(std::move(part)),
      stop_(stop),
      skyline_(part_),
      exact_(part_, seed, stop_),
      random_(seed),
      priority_(part_.blocks.size()),
      bound_bytes_(part_.bound_bytes) {
  for (const Block& b : part_.blocks) {
    log_life_.push_back(static_cast<float>(std::log(static_cast<double>(b.upper - b.lower))));
    log_bytes_.push_back(static_cast<float>(std::log(static_cast<double>(b.bytes))));
  }
}

void PartPlan::begin(std::uint64_t target_bytes) { pass({grid[0]}, target_bytes, never); }

bool PartPlan::improve(std::uint64_t target_bytes) {
  if (passes_ < grid_passes) return pass({grid[passes_ / 2], passes_ % 2 == 1}, target_bytes, stop_);
  if (is_search_due(target_bytes)) return search(target_bytes);
  if (fits_ < fit_orders * 2 && passes_ - grid_passes >= fits_ * passes_per_fit) return fit();
  return pass(passes_ % 2 == 0 ? draw() : disturb(), target_bytes, stop_);
}

bool PartPlan::settled() const {
  if (best_bytes_ <= bound_bytes_) return true;
  const bool near = best_bytes_ <= bound_bytes_ + part_.most_tail;
  const bool tried = (passes_ >= grid_passes && fits_ == fit_orders * 2) || work_ >= work_on_rounding;
  return near && tried;
}

bool PartPlan::pass(Recipe recipe, std::uint64_t target_bytes, const std::function<bool()>& stop) {
  ++passes_;
  steer(recipe);
  const std::uint64_t capacity = recipe.towards_best ? best_bytes_ - 1 : target_bytes;
  const std::uint64_t rounded = capacity + part_.most_tail;
  const auto fill = recipe.always_tightest ? skyline::Fill::tightest : skyline::Fill::tightest_where_scarce;
  const std::uint64_t before = skyline_.placements();
  const std::optional<std::uint64_t> top =
      skyline_.place({rounded, best_bytes_, fill, priority_, &stop}, &offsets_);
  // A pass also sets up its trees, at about a sixteenth of the cost of placing all.
  work_ += skyline_.placements() - before + part_.blocks.size() / 16 + 1;
  if (!top) return false;
  best_bytes_ = *top;
  best_offsets_.swap(offsets_);
  best_recipe_ = std::move(recipe);
  return true;
}

bool PartPlan::fit() {
  const auto order = static_cast<FitOrder>(fits_ / 2);
  Fit fit = fit_in_order(part_, order_of(part_, order), fits_ % 2 == 0, {best_bytes_, &stop_});
  ++fits_;
  work_ += fit.walked / looks_per_work + part_.blocks.size();
  if (!fit.top_bytes) return false;
  best_bytes_ = *fit.top_bytes;
  best_offsets_ = std::move(fit.offsets);
  return true;
}

bool PartPlan::is_search_due(std::uint64_t target_bytes) const {
  return exact_.possible() && std::max(bound_bytes_, target_bytes) < best_bytes_ &&
         exact_.work() < search_share * work_;
}

bool PartPlan::search(std::uint64_t target_bytes) {
  ExactTries::Answer answer = exact_.look(std::max(bound_bytes_, target_bytes), best_bytes_);
  bound_bytes_ = std::max(bound_bytes_, answer.bound_bytes);
  if (!answer.offsets) return false;
  best_offsets_ = std::move(*answer.offsets);
  best_bytes_ = 0;
  for (std::size_t i = 0; i < best_offsets_.size(); ++i) {
    best_bytes_ = std::max(best_bytes_, part_.blocks[i].end_at(best_offsets_[i]));
  }
  return true;
}

PartPlan::Recipe PartPlan::draw() {
  Recipe recipe{static_cast<float>(uniform() * 1.5), uniform() < 0.5, uniform() < 0.25};
  const double amplitude = uniform() < 0.3 ? 0 : uniform();
  if (amplitude == 0) return recipe;
  recipe.noise.resize(part_.blocks.size());
  for (float& n : recipe.noise) n = noise(amplitude);
  return recipe;
}

// The best recipe with other noise for some of the blocks: for few more often than for many.
PartPlan::Recipe PartPlan::disturb() {
  Recipe recipe = best_recipe_;
  recipe.noise.resize(part_.blocks.size());
  const double share = std::pow(0.5, uniform() * 8);
  const double amplitude = uniform();
  for (float& n : recipe.noise) {
    if (uniform() < share) n = noise(amplitude);
  }
  if (uniform() < 0.1) recipe.always_tightest = !recipe.always_tightest;
  return recipe;
}

void PartPlan::steer(const Recipe& recipe) {
  for (std::size_t i = 0; i < priority_.size(); ++i) {
    priority_[i] = log_life_[i] + recipe.size_weight * log_bytes_[i];
  }
  for (std::size_t i = 0; i < recipe.noise.size(); ++i) priority_[i] += recipe.noise[i];
}

}  // namespace terrace::planner::portfolio
