// The policy `terrace`: our portfolio for static memory reuse.
//
// The instance is cut into parts that do not concern each other (parts.h). Every part gets a first placement
// in O(n log n); from then on only the part that ends highest matters, and gets one move after the other
// (part_plan.h) until it reaches the bound, is no longer the highest, or the work is used up. The answer only
// gets better, and is complete at any time. Where a small instance is left above the bound, every other
// policy is asked as well: they can still win the last bytes, those below one alignment.
#include <algorithm>
#include <memory>
#include <string_view>

#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/portfolio/part_plan.h"

namespace terrace::planner {
namespace {

using portfolio::PartPlan;

// About half a minute. What helps comes early; callers with less patience say `stop`.
constexpr std::uint64_t default_steps = std::uint64_t{1} << 25;

// The others are asked up to this size, where all of them together take a moment.
constexpr std::size_t most_buffers_for_others = 256;
// The exact search as a policy ends only when told to; it asks every 1,024 nodes, some milliseconds.
constexpr int asks_for_search = 16;

class Portfolio {
 public:
  Portfolio(const Instance& instance, const SearchControl& control)
      : instance_(instance), control_(control), parts_(skyline::cut(instance)) {
    for (portfolio::Part& part : parts_.parts) {
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
    Placement best = placement();
    if (instance_.buffers.size() <= most_buffers_for_others) ask_others(&best);
    return best;
  }

 private:
  void ask_others(Placement* best) const {
    SearchControl control{control_.seed, 0, control_.stop, {}, control_.steps};
    SearchControl brief = control;
    int asked = 0;
    brief.stop = [&] { return ++asked > asks_for_search || (control.stop && control.stop()); };
    for (const ReusePolicy& other : reuse_policies()) {
      if (best->total_bytes <= std::max(live_bytes_, control_.capacity_bytes)) return;
      if (control.stop && control.stop()) return;
      const std::string_view family = other.family;
      if (family == "terrace") continue;
      Result<Placement> placed = other.solve(instance_, family == "search" ? brief : control);
      if (!placed || placed->total_bytes >= best->total_bytes) continue;
      if (!check_placement(instance_, *placed).empty()) continue;
      *best = std::move(*placed);
      if (control_.progress) control_.progress(best->total_bytes, live_bytes_);
    }
  }

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

Result<Placement> place_terrace(const Instance& instance, const SearchControl& control) {
  return ok(Portfolio(instance, control).run());
}

}  // namespace

std::vector<ReusePolicy> terrace_policies() {
  return {{"terrace", "terrace",
           "daemon/planner/reuse/portfolio: skyline with lookahead, orders, exact search", place_terrace}};
}

}  // namespace terrace::planner
