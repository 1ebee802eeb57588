// Capuchin (Peng et al., ASPLOS'20), section 4, its swap half: recomputation is another policy's matter.
//
// Of each two accesses in a row, free_time = (back_access − swap_time) − (evict_access + swap_time): how long
// the link may be late before the computation notices. Gaps are taken by free time, largest first, as long as
// some operation of theirs is above the limit. The prefetch is triggered by the last operation that begins
// before back_access − swap_time; whoever was waited for is triggered 5% of its swap time earlier in the next
// round (the paper's feedback-driven adjustment). What remains is evicted on demand, as in its passive mode.
#include <algorithm>

#include "daemon/planner/simulate/policies/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;

constexpr int rounds = 8;                 // of feedback
constexpr int worse_rounds_in_a_row = 2;  // end it
constexpr double earlier_share = 0.05;

struct Swap {
  Gap gap;
  std::uint32_t tier = 0;
  double swap_us = 0, free_us = 0;
  double earlier_us = 0;  // by feedback
};

class Capuchin {
 public:
  Capuchin(const wire::Trace& trace, const Machine& machine)
      : trace_(trace), machine_(machine), starts_us_(ideal_starts_us(trace)) {
    choose();
  }

  wire::Schedule best() {
    wire::Schedule best = schedule();
    double best_us = 0;
    int no_better = 0;
    for (int round = 0; round < rounds && no_better < worse_rounds_in_a_row; ++round) {
      const wire::Schedule tried = schedule();
      const Result<SimulationReport> report =
          simulate(trace_, machine_, tried, {Victims::lru, StallRule::strict, 1, true, 0});
      if (!report) break;
      ++no_better;
      if (round == 0 || report->total_us < best_us) {
        best = tried;
        best_us = report->total_us;
        no_better = 0;
      }
      if (!hurry(*report)) break;
    }
    return best;
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  std::vector<double> starts_us_;
  std::vector<Swap> swaps_;

  void choose() {
    FarTiers far(trace_, machine_);
    Residency residency(trace_);
    const std::uint64_t limit = machine_.tiers[0].capacity_bytes;
    for (Swap& s : candidates(far)) {
      const std::uint64_t bytes = trace_.tensors[s.gap.tensor].bytes;
      if (!residency.exceeds(s.gap.from + 1, s.gap.to, limit)) continue;
      const std::optional<std::uint32_t> tier = far.place(s.gap, bytes);
      if (!tier) continue;
      s.tier = *tier;
      s.swap_us = far.transfer_us(*tier, bytes, true);
      residency.remove(s.gap.from + 1, s.gap.to, bytes);
      swaps_.push_back(s);
    }
  }

  // Estimated with the nearest tier, before it is known which one has room.
  std::vector<Swap> candidates(const FarTiers& far) const {
    std::vector<Swap> all;
    for (const Gap& gap : gaps_of(trace_)) {
      if (gap.wraps || !far.any()) continue;
      const std::uint64_t bytes = trace_.tensors[gap.tensor].bytes;
      const std::uint32_t tier = far.tiers().front();
      const double in_us = far.transfer_us(tier, bytes, true);
      const double out_us = far.transfer_us(tier, bytes, false);
      all.push_back({gap, tier, in_us, starts_us_[gap.to] - in_us - starts_us_[gap.from + 1] - out_us, 0});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Swap& a, const Swap& b) { return a.free_us > b.free_us; });
    return all;
  }

  std::uint32_t trigger(const Swap& s) const {
    const double at_us = starts_us_[s.gap.to] - s.swap_us - s.earlier_us;
    const auto after = std::upper_bound(starts_us_.begin(), starts_us_.end(), at_us);
    const auto position =
        static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(after - starts_us_.begin() - 1, 0));
    return std::clamp(position, s.gap.from + 1, s.gap.to);
  }

  wire::Schedule schedule() const {
    std::vector<wire::ScheduleEntry> entries;
    for (const Swap& s : swaps_) {
      entries.push_back({s.gap.from + 1, s.gap.tensor, Action::evict, s.tier, {}});
      entries.push_back({trigger(s), s.gap.tensor, Action::prefetch, s.tier, {}});
    }
    return sorted_schedule(trace_, "capuchin_swap", std::move(entries));
  }

  // Whether a trigger moved.
  bool hurry(const SimulationReport& report) {
    bool moved = false;
    for (Swap& s : swaps_) {
      if (report.ops[s.gap.to].stalls.late_prefetch_us <= 0) continue;
      const std::uint32_t before = trigger(s);
      s.earlier_us += earlier_share * s.swap_us;
      moved |= trigger(s) != before;
    }
    return moved;
  }
};

}  // namespace

Result<wire::Schedule> plan_capuchin_swap(const wire::Trace& trace, const Machine& machine) {
  return ok(Capuchin(trace, machine).best());
}

}  // namespace terrace::planner
