#include "daemon/planner/simulate/addresses/fitting.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "daemon/planner/simulate/addresses/addresses.h"

namespace terrace::planner {
namespace {

constexpr int most_tries = 4;
constexpr double share_of_effort = 0.15;   // of each
constexpr std::uint64_t least_part = 256;  // of tier 0: less than that is not worth a try

struct TimedPlan {
  SwapPlan plan;
  double time_us = std::numeric_limits<double>::infinity();
};

class Fitting {
 public:
  Fitting(const wire::Trace& trace, const Machine& machine, const SwapControl& control, PlanByBytes by_bytes)
      : trace_(trace),
        machine_(machine),
        control_(control),
        by_bytes_(by_bytes),
        capacity_bytes_(machine.tiers[0].capacity_bytes) {}

  Result<SwapPlan> best() {
    if (again_with_the_same_spare()) return ok(std::move(fitting_.plan));
    Result<SwapPlan> by_bytes = by_bytes_(trace_, machine_, control_);
    if (!by_bytes || !needs_addresses()) return by_bytes;
    const std::uint64_t missing = missing_bytes(*by_bytes);
    if (missing == 0) return by_bytes;
    plan_for_less(*by_bytes, missing);
    if (control_.from == nullptr) look_at_published();
    if (fitting_.time_us == std::numeric_limits<double>::infinity()) return by_bytes;
    fitting_.plan.policy = by_bytes->policy;
    return ok(std::move(fitting_.plan));
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const SwapControl& control_;
  PlanByBytes by_bytes_;
  std::uint64_t capacity_bytes_;
  TimedPlan fitting_;  // the fastest

  // An earlier plan that spares something is planned again sparing as much.
  bool again_with_the_same_spare() {
    const SwapPlan* from = control_.from;
    if (from == nullptr || from->spare_bytes == 0 || from->spare_bytes >= capacity_bytes_) return false;
    return needs_addresses() && try_sparing(from, from->spare_bytes, 1) == 0;
  }

  bool needs_addresses() const { return !machine_.tiers[0].paged && capacity_bytes_ != unlimited_bytes; }

  // What the plan's addresses need beyond tier 0; 0: they fit. All of it where there are none.
  std::uint64_t missing_bytes(const SwapPlan& plan) {
    const Result<SimulationReport> report = simulate_repeated(trace_, machine_, plan, plan.victims, true);
    if (!report) return capacity_bytes_;
    const Result<Addresses> addresses = addresses_of(machine_, *report);
    if (!addresses) return capacity_bytes_;
    if (!addresses->fit) return addresses->needed_bytes - capacity_bytes_;
    if (report->total_us < fitting_.time_us) fitting_ = {plan, report->total_us};
    return 0;
  }

  void plan_for_less(const SwapPlan& from, std::uint64_t missing) {
    std::uint64_t too_little = from.spare_bytes;
    std::uint64_t spare = too_little + std::max(missing, capacity_bytes_ / least_part);
    std::uint64_t enough = 0;  // a larger spare; 0: none was found
    for (int tried = 0; tried < most_tries && spare > too_little && spare < capacity_bytes_; ++tried) {
      const std::uint64_t still_missing = try_sparing(&from, spare, share_of_effort);
      if (still_missing == 0) {
        enough = spare;
        spare = too_little + (spare - too_little) / 2;
      } else if (enough != 0 || still_missing >= capacity_bytes_) {
        break;
      } else {
        too_little = spare;
        spare += std::min(std::max(still_missing, spare), capacity_bytes_ - spare);
      }
    }
    if (control_.from == nullptr) try_sparing(nullptr, enough != 0 ? enough : too_little, share_of_effort);
  }

  // From that plan, which a small change leaves good, or anew: a large one may ask for quite another. As
  // missing_bytes().
  std::uint64_t try_sparing(const SwapPlan* from, std::uint64_t spare_bytes, double effort) {
    Machine smaller = machine_;
    smaller.tiers[0].capacity_bytes -= spare_bytes;
    SwapPlan earlier = from == nullptr ? SwapPlan{} : *from;
    earlier.spare_bytes = 0;
    SwapControl control = control_;
    control.effort *= effort;
    control.from = from == nullptr ? nullptr : &earlier;
    Result<SwapPlan> plan = by_bytes_(trace_, smaller, control);
    if (!plan) return capacity_bytes_;
    plan->spare_bytes += spare_bytes;
    return missing_bytes(*plan);
  }

  // The first of them that fits, from the fastest on, is the fastest that does.
  void look_at_published() {
    std::vector<TimedPlan> faster;
    for (const SwapPolicy& policy : published_swap_policies()) {
      SwapControl control = control_;
      control.effort = 1;
      control.from = nullptr;
      Result<SwapPlan> plan = policy.plan(trace_, machine_, control);
      if (!plan) continue;
      const auto report = simulate_repeated(trace_, machine_, *plan, plan->victims);
      if (report && report->total_us < fitting_.time_us)
        faster.push_back({std::move(*plan), report->total_us});
    }
    std::stable_sort(faster.begin(), faster.end(),
                     [](const TimedPlan& a, const TimedPlan& b) { return a.time_us < b.time_us; });
    for (const TimedPlan& plan : faster)
      if (missing_bytes(plan.plan) == 0) return;
  }
};

}  // namespace

Result<SwapPlan> plan_with_addresses(const wire::Trace& trace, const Machine& machine,
                                     const SwapControl& control, PlanByBytes by_bytes) {
  return Fitting(trace, machine, control, by_bytes).best();
}

}  // namespace terrace::planner
