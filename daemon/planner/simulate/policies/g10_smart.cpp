// G10's smart tensor migration (Zhang et al., MICRO'23, section 4.3; the artifact's scheduling_prefetch),
// with whole tensors instead of pages.
//
// Of all inactive periods the one that relieves most is taken first: bytes × time in which memory is above
// the target. It goes to the farthest tier if it lasts more than 2.5 times a round of overhead and transfer
// there, except when that tier's way out is taken; otherwise to the nearest, by the same rule. Both transfers
// reserve the links operation by operation: the eviction as soon, the prefetch as late as possible; if they
// meet, the period is left alone. Periods that wrap around the step's end reserve nothing. At last,
// prefetches move to the earliest operation from which memory stays below the target. The rest is left to
// demand and FIFO eviction.
#include <algorithm>
#include <limits>
#include <queue>

#include "daemon/planner/simulate/policies/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;

constexpr double target_share = 0.99;  // of tier 0
constexpr double worth = 2.5;          // times a transfer and its overhead
constexpr double fault_us = 45;        // system_latency_us of the artifact's default configuration
constexpr double far_latency_us = 20;  // its SSD_latency_us
constexpr std::uint32_t none = 0xffffffffU;

// Bytes that a route can still carry during each operation, link by link.
class Reservations {
 public:
  Reservations(const wire::Trace& trace, const Machine& machine) {
    for (const Link& link : machine.links) {
      for (const double rate : {link.out_bytes_per_second, link.in_bytes_per_second}) {
        std::vector<double>& left = left_.emplace_back();
        for (const wire::TraceOp& op : trace.ops) left.push_back(op.time_us * rate / 1e6);
      }
    }
  }

  // The operation by whose end `bytes` have moved, beginning with `from`; none if that is not before `end`.
  std::uint32_t last_forwards(const Route& route, bool in, std::uint32_t from, std::uint32_t end,
                              double bytes) const {
    for (std::uint32_t op = from; op < end; ++op) {
      bytes -= free(route, in, op);
      if (bytes <= 0) return op;
    }
    return none;
  }
  // The operation with which they must begin to have moved before `end`; none if that is before `begin`.
  std::uint32_t first_backwards(const Route& route, bool in, std::uint32_t begin, std::uint32_t end,
                                double bytes) const {
    for (std::uint32_t op = end; op-- > begin;) {
      bytes -= free(route, in, op);
      if (bytes <= 0) return op;
    }
    return none;
  }
  void take(const Route& route, bool in, std::uint32_t begin, std::uint32_t end, double bytes,
            bool backwards) {
    for (std::uint32_t i = begin; i < end && bytes > 0; ++i) {
      const std::uint32_t op = backwards ? end - 1 - (i - begin) : i;
      const double moved = std::min(bytes, free(route, in, op));
      for (const std::uint32_t link : route.links) left_[link * 2 + (in ? 1 : 0)][op] -= moved;
      bytes -= moved;
    }
  }
  double free(const Route& route, bool in, std::uint32_t op) const {
    double least = std::numeric_limits<double>::infinity();
    for (const std::uint32_t link : route.links) least = std::min(least, left_[link * 2 + (in ? 1 : 0)][op]);
    return std::max(0.0, least);
  }

 private:
  std::vector<std::vector<double>> left_;  // per link and direction
};

struct Move {
  Gap gap;
  std::uint32_t tier = 0, evict = 0, prefetch = 0;
};

class Planner {
 public:
  Planner(const wire::Trace& trace, const Machine& machine)
      : trace_(trace),
        machine_(machine),
        far_(trace, machine),
        links_(trace, machine),
        residency_(trace),
        starts_us_(ideal_starts_us(trace)),
        target_(
            static_cast<std::uint64_t>(target_share * static_cast<double>(machine.tiers[0].capacity_bytes))),
        ops_(static_cast<std::uint32_t>(trace.ops.size())) {}

  wire::Schedule plan() {
    if (far_.any()) choose();
    bring_forward();
    std::vector<wire::ScheduleEntry> entries;
    for (const Move& m : moves_) {
      entries.push_back({m.evict, m.gap.tensor, Action::evict, m.tier, {}});
      entries.push_back({m.prefetch, m.gap.tensor, Action::prefetch, m.tier, {}});
    }
    return sorted_schedule(trace_, "g10_smart", std::move(entries));
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  FarTiers far_;
  Reservations links_;
  Residency residency_;
  std::vector<double> starts_us_;
  std::uint64_t target_;
  std::uint32_t ops_;
  std::vector<double> above_us_;  // time above the target before each operation
  std::vector<Move> moves_;

  double bytes_of(const Gap& gap) const { return static_cast<double>(trace_.tensors[gap.tensor].bytes); }
  const Route& route_to(std::uint32_t tier) const {
    return *std::find_if(machine_.routes.begin(), machine_.routes.end(),
                         [&](const Route& r) { return r.tier == tier; });
  }

  void measure() {
    above_us_.assign(ops_ + 1, 0);
    for (std::uint32_t op = 0; op < ops_; ++op) {
      above_us_[op + 1] = above_us_[op] + (residency_.at(op) > target_ ? trace_.ops[op].time_us : 0);
    }
  }

  double relief(const Gap& gap) const {
    const double us = gap.wraps ? above_us_[ops_] - above_us_[gap.from + 1] + above_us_[gap.to]
                                : above_us_[gap.to] - above_us_[gap.from + 1];
    return us * bytes_of(gap);
  }

  double length_us(const Gap& gap) const {
    const double us = starts_us_[gap.to] - starts_us_[gap.from + 1];
    return gap.wraps ? us + starts_us_[ops_] : us;
  }

  // Relief only falls while moves are added, so an old value at the top of the heap is looked at again.
  void choose() {
    const std::vector<Gap> gaps = gaps_of(trace_);
    measure();
    std::priority_queue<std::pair<double, std::uint32_t>> queue;
    const auto last = static_cast<std::uint32_t>(gaps.size());
    for (std::uint32_t i = 0; i < last; ++i) queue.emplace(relief(gaps[i]), last - i);  // ties: the first
    while (!queue.empty() && residency_.most() > target_) {
      const auto [promised, rank] = queue.top();
      queue.pop();
      const Gap& gap = gaps[last - rank];
      const double now = relief(gap);
      if (now <= 0) continue;
      if (now < promised) {
        queue.emplace(now, rank);
      } else if (move(gap)) {
        measure();
      }
    }
  }

  bool pays(const Gap& gap, std::uint32_t tier) const {
    const bool farthest = tier == far_.farthest() && far_.tiers().size() > 1;
    const double overhead_us = fault_us + (farthest ? far_latency_us : 0);
    const auto bytes = trace_.tensors[gap.tensor].bytes;
    return length_us(gap) > worth * (overhead_us + far_.transfer_us(tier, bytes, false)) &&
           far_.has_room(tier, gap, bytes);
  }

  std::uint32_t tier_for(const Gap& gap) const {
    const std::uint32_t nearest = far_.tiers().front();
    const bool full = !gap.wraps && links_.free(route_to(far_.farthest()), false, gap.from + 1) <= 0 &&
                      far_.has_room(nearest, gap, trace_.tensors[gap.tensor].bytes);
    if (pays(gap, far_.farthest()) && !full) return far_.farthest();
    return pays(gap, nearest) ? nearest : 0;
  }

  bool move(const Gap& gap) {
    const std::uint32_t tier = tier_for(gap);
    if (tier == 0) return false;
    return gap.wraps ? move_around(gap, tier) : move_within(gap, tier);
  }

  bool move_within(const Gap& gap, std::uint32_t tier) {
    const double bytes = bytes_of(gap);
    const Route& route = route_to(tier);
    const std::uint32_t gone = links_.last_forwards(route, false, gap.from + 1, gap.to, bytes);
    const std::uint32_t back = links_.first_backwards(route, true, gap.from + 1, gap.to, bytes);
    if (gone == none || back == none || back <= gone) return false;
    links_.take(route, false, gap.from + 1, gone + 1, bytes, false);
    links_.take(route, true, back, gap.to, bytes, true);
    note({gap, tier, gap.from + 1, back});
    return true;
  }

  // Back in time before its first use if the step's beginning is long enough, else at the end of the step
  // before.
  bool move_around(const Gap& gap, std::uint32_t tier) {
    const double needs_us = far_.transfer_us(tier, trace_.tensors[gap.tensor].bytes, true);
    double at_us = starts_us_[gap.to] - needs_us;
    const bool before = at_us < 0;
    if (before) at_us += starts_us_[ops_];
    const auto after = std::upper_bound(starts_us_.begin(), starts_us_.end() - 1, at_us);
    const auto position =
        static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(after - starts_us_.begin() - 1, 0));
    if (before && position <= gap.from + 1) return false;
    note({gap, tier, gap.from + 1, position});
    return true;
  }

  // The operations at which the tensor is away, as one or two ranges.
  template <class Visit>
  void absence(const Move& m, Visit visit) const {
    if (m.prefetch >= m.evict) {
      visit(m.evict, m.prefetch);
      return;
    }
    visit(m.evict, ops_);
    visit(0, m.prefetch);
  }

  void note(const Move& m) {
    const std::uint64_t bytes = trace_.tensors[m.gap.tensor].bytes;
    far_.take(m.tier, m.gap, bytes);
    absence(m, [&](std::uint32_t begin, std::uint32_t end) { residency_.remove(begin, end, bytes); });
    moves_.push_back(m);
  }

  void bring_forward() {
    std::stable_sort(moves_.begin(), moves_.end(),
                     [](const Move& a, const Move& b) { return a.prefetch < b.prefetch; });
    for (Move& m : moves_) {
      if (m.gap.wraps && m.prefetch > m.gap.to) continue;  // at the end of the step before
      const std::uint64_t bytes = trace_.tensors[m.gap.tensor].bytes;
      const std::uint32_t begin = m.gap.wraps ? 0 : m.gap.from + 1;
      const std::uint32_t earlier = residency_.earliest(begin, m.prefetch, bytes, target_);
      residency_.add(earlier, m.prefetch, bytes);
      m.prefetch = earlier;
    }
  }
};

}  // namespace

Result<wire::Schedule> plan_g10_smart(const wire::Trace& trace, const Machine& machine) {
  return ok(Planner(trace, machine).plan());
}

}  // namespace terrace::planner
