#include "daemon/planner/reuse/portfolio/portfolio.h"

#include <algorithm>
#include <memory>

#include "daemon/planner/reuse/portfolio/part_plan.h"

namespace terrace::planner::portfolio {
namespace {

// About half a minute. What helps comes early; callers with less patience say `stop`.
constexpr std::uint64_t default_steps = std::uint64_t{1} << 25;

class Portfolio {
 public:
  Portfolio(const Instance& instance, const SearchControl& control)
      : instance_(instance), control_(control), parts_(skyline::cut(instance)) {
    for (Part& part : parts_.parts) {
      plans_.push_back(
          std::make_unique<PartPlan>(std::move(part), control.seed + plans_.size(), control_.stop));
    }
    target_bytes_ = std::max(parts_.bound_bytes, control.capacity_bytes);
  }

  Placement run() {
    for (const auto& plan : plans_) plan->begin(target_bytes_);
    report();
    const std::uint64_t steps = control_.steps > 0 ? control_.steps : default_steps;
    while (!done() && work_ < steps && !(control_.stop && control_.stop())) {
      PartPlan& plan = highest();
      const std::uint64_t before = plan.work();
      if (plan.improve(target_bytes_)) report();
      work_ += plan.work() - before;
    }
    return placement();
  }

 private:
  // Every part fits the target, or the highest is as low as it can be.
  bool done() { return total_bytes() <= target_bytes_ || highest().settled(); }

  PartPlan& highest() {
    return **std::max_element(plans_.begin(), plans_.end(),
                              [](const auto& a, const auto& b) { return a->best_bytes() < b->best_bytes(); });
  }

  std::uint64_t total_bytes() {
    return plans_.empty() ? parts_.settled_bytes : std::max(parts_.settled_bytes, highest().best_bytes());
  }

  void report() {
    const std::uint64_t total = placement().total_bytes;
    if (total >= reported_bytes_) return;
    reported_bytes_ = total;
    if (control_.progress) control_.progress(total, live_bytes_);
  }

  Placement placement() const {
    Placement placement{parts_.offsets, 0};
    for (const auto& plan : plans_) {
      for (std::size_t i = 0; i < plan->best_offsets().size(); ++i) {
        placement.offsets[plan->part().blocks[i].buffer] = plan->best_offsets()[i];
      }
    }
    for (std::size_t n = 0; n < placement.offsets.size(); ++n) {
      const std::uint64_t end = placement.offsets[n] + instance_.buffers[n].bytes;
      placement.total_bytes = std::max(placement.total_bytes, end);
    }
    return placement;
  }

  const Instance& instance_;
  const SearchControl& control_;
  skyline::Parts parts_;
  const std::uint64_t live_bytes_ = max_live_bytes(instance_.buffers);
  std::vector<std::unique_ptr<PartPlan>> plans_;
  std::uint64_t target_bytes_ = 0;
  std::uint64_t reported_bytes_ = ~std::uint64_t{0};
  std::uint64_t work_ = 0;
};

}  // namespace

Placement place(const Instance& instance, const SearchControl& control) {
  return Portfolio(instance, control).run();
}

}  // namespace terrace::planner::portfolio
