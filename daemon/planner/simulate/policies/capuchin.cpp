// Capuchin (Peng et al., ASPLOS'20), section 4: swap by free time, recompute by memory saving per second.
//
// Of each two accesses in a row, free_time = (back_access − swap_time) − (evict_access + swap_time): how long
// the link may be late before the computation notices. Gaps are taken by free time, largest first, as long as
// some operation of theirs is above the limit. The prefetch is triggered by the last operation that begins
// before back_access − swap_time; whoever was waited for is triggered 5% of its swap time earlier in the next
// round (the paper's feedback-driven adjustment). What remains is evicted on demand, as in its passive mode.
// That is `capuchin_swap`.
//
// `capuchin` goes on with what the link does not hide. Once a step waits for the link, a swap's overhead is
// its time there; that of recomputation is running the operations that made the tensor again. Where the
// latter is less, the tensor is dropped and made again right before its back access, on demand, in the order
// of MSPS, the bytes saved per second of recomputing; who is chosen changes the sources, and so the price, of
// those that follow (lineage.h). As many turn as spare the link what the step was measured to wait, first of
// those that move, then of those that have room, so that another may stay; then it is measured anew. What no
// tier has room for is recomputed in any case.
//
// The paper's text was not at hand: formulas and order are those of notes on it. The paper predicts a swap's
// overhead from its free time alone, here it is measured, since many that are hidden alone fill the link
// together. By guess: that half as many turn where a round was no better, and the numbers of rounds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "daemon/planner/simulate/gaps/lineage.h"
#include "daemon/planner/simulate/gaps/remaking.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

constexpr int rounds = 8;                 // of feedback
constexpr int worse_rounds_in_a_row = 2;  // end it
constexpr int turning_rounds = 6;
constexpr double earlier_share = 0.05;

enum class Way : std::uint8_t { stays, moves, made_again };

// A gap that lies over an operation without room, and what becomes of it.
struct Choice {
  Gap gap;
  std::uint32_t tier = 0;
  double swap_us = 0, free_us = 0;
  double earlier_us = 0;  // by feedback
  Way way = Way::stays;
};

class Capuchin {
 public:
  Capuchin(const wire::Trace& trace, const Machine& machine, bool recomputes)
      : trace_(trace),
        machine_(machine),
        name_(recomputes ? "capuchin" : "capuchin_swap"),
        starts_us_(ideal_starts_us(trace)),
        far_(trace, machine),
        lineage_(trace) {
    choose(recomputes);
  }

  wire::Schedule best_of_swaps() {
    best_ = schedule();
    int no_better = 0;
    for (int round = 0; round < rounds && no_better < worse_rounds_in_a_row; ++round) {
      ++no_better;
      const std::optional<SimulationReport> report = measure(true);
      if (!report) break;
      if (report->total_us < best_us_) {
        keep(*report);
        no_better = 0;
      }
      if (!hurry(*report)) break;
    }
    return best_;
  }

  // After the best of swaps.
  wire::Schedule best() {
    best_of_swaps();
    double part = 1;
    int no_better = 0;
    for (int round = 0; round < turning_rounds && no_better < worse_rounds_in_a_row; ++round) {
      choices_ = best_choices_;
      settle();
      if (!std::isfinite(best_us_) || !turn(part)) break;
      let_stay();
      settle();
      ++no_better;
      part /= 2;
      const std::optional<SimulationReport> report = measure(false);
      if (!report || report->total_us >= best_us_) continue;
      keep(*report);
      no_better = 0;
      part = 1;
    }
    return best_;
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const char* name_;
  std::vector<double> starts_us_;
  FarTiers far_;
  Lineage lineage_;
  std::vector<Choice> choices_;  // by free time, the most first
  // The best so far.
  wire::Schedule best_;
  std::vector<Choice> best_choices_;
  double best_waits_us_ = 0;
  double best_us_ = std::numeric_limits<double>::infinity();

  std::uint64_t limit() const { return machine_.tiers[0].capacity_bytes; }
  std::uint64_t bytes_of(const Choice& c) const { return trace_.tensors[c.gap.tensor].bytes; }
  static bool is_short(const Residency& residency, const Gap& gap, std::uint64_t limit) {
    return residency.exceeds(gap.from + 1, gap.to, limit);
  }

  void choose(bool recomputes) {
    Residency residency(trace_);
    choices_ = candidates(residency);
    std::vector<std::size_t> homeless;  // no tier has room for them
    for (std::size_t i = 0; i < choices_.size() && residency.most() > limit(); ++i) {
      Choice& c = choices_[i];
      if (!is_short(residency, c.gap, limit())) continue;
      const std::optional<std::uint32_t> tier = far_.place(c.gap, bytes_of(c));
      if (!tier) {
        homeless.push_back(i);
        continue;
      }
      c.tier = *tier;
      c.swap_us = far_.transfer_us(*tier, bytes_of(c), true);
      c.way = Way::moves;
      residency.remove(c.gap.from + 1, c.gap.to, bytes_of(c));
    }
    settle();
    if (recomputes) make_again(homeless, &residency);
  }

  // By their bytes per second, as it is before any of them is dropped.
  void make_again(const std::vector<std::size_t>& homeless, Residency* residency) {
    for (const std::size_t i :
         by_saving(homeless, [](const Choice&) { return std::numeric_limits<double>::infinity(); })) {
      Choice& c = choices_[i];
      if (!is_short(*residency, c.gap, limit()) || !lineage_.price_us(c.gap)) continue;
      residency->remove(c.gap.from + 1, c.gap.to, bytes_of(c));
      c.way = Way::made_again;
      lineage_.drop(c.gap);
    }
  }

  // Estimated with the nearest tier, before it is known which one has room.
  std::vector<Choice> candidates(const Residency& residency) const {
    std::vector<Choice> all;
    for (const Gap& gap : gaps_of(trace_)) {
      if (gap.wraps || !is_short(residency, gap, limit())) continue;
      Choice c{gap};
      if (far_.any()) {
        c.tier = far_.tiers().front();
        c.swap_us = far_.transfer_us(c.tier, bytes_of(c), true);
        const double out_us = far_.transfer_us(c.tier, bytes_of(c), false);
        c.free_us = starts_us_[gap.to] - c.swap_us - starts_us_[gap.from + 1] - out_us;
      }
      all.push_back(c);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Choice& a, const Choice& b) { return a.free_us > b.free_us; });
    return all;
  }

  std::uint32_t trigger(const Choice& c) const {
    const double at_us = starts_us_[c.gap.to] - c.swap_us - c.earlier_us;
    const auto after = std::upper_bound(starts_us_.begin(), starts_us_.end(), at_us);
    const auto position =
        static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(after - starts_us_.begin() - 1, 0));
    return std::clamp(position, c.gap.from + 1, c.gap.to);
  }

  wire::Schedule schedule() const {
    std::vector<ScheduleEntry> entries;
    Remaking remaking(lineage_, static_cast<std::uint32_t>(trace_.ops.size()));
    for (const Choice& c : choices_) {
      if (c.way == Way::made_again) remaking.add(c.gap);
      if (c.way != Way::moves) continue;
      entries.push_back({c.gap.from + 1, c.gap.tensor, Action::out, c.tier, {}});
      entries.push_back({trigger(c), c.gap.tensor, Action::in, c.tier, {}});
    }
    remaking.add_to(&entries);
    return sorted_schedule(trace_, name_, entries);
  }

  std::optional<SimulationReport> measure(bool each_operation) const {
    Result<SimulationReport> report =
        simulate(trace_, machine_, schedule(), {Victims::lru, StallRule::strict, 1, each_operation, 0});
    return std::move(report.value);
  }

  void keep(const SimulationReport& report) {
    best_ = schedule();
    best_choices_ = choices_;
    best_waits_us_ = report.stalls.total_us();
    best_us_ = report.total_us;
  }

  // Whether a trigger moved.
  bool hurry(const SimulationReport& report) {
    bool moved = false;
    for (Choice& c : choices_) {
      if (c.way != Way::moves || report.ops[c.gap.to].stalls.late_prefetch_us <= 0) continue;
      const std::uint32_t before = trigger(c);
      c.earlier_us += earlier_share * c.swap_us;
      moved |= trigger(c) != before;
    }
    return moved;
  }

  // --- what to recompute instead

  // The lineage knows the choices.
  void settle() {
    lineage_.keep_all();
    for (const Choice& c : choices_) {
      if (c.way == Way::moves) lineage_.move(c.gap, c.swap_us);
      if (c.way == Way::made_again) lineage_.drop(c.gap);
    }
  }

  // Of `which` those that cost less to make again than `most_us` says, largest saving per second first.
  template <class Most>
  std::vector<std::size_t> by_saving(const std::vector<std::size_t>& which, Most most_us) const {
    std::vector<std::pair<double, std::size_t>> priced;
    for (const std::size_t i : which) {
      if (choices_[i].way == Way::made_again) continue;
      const std::optional<double> price_us = lineage_.price_us(choices_[i].gap);
      if (!price_us || *price_us >= most_us(choices_[i])) continue;
      priced.emplace_back(static_cast<double>(bytes_of(choices_[i])) / *price_us, i);
    }
    std::stable_sort(priced.begin(), priced.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::size_t> order;
    order.reserve(priced.size());
    for (const auto& [saving, i] : priced) order.push_back(i);
    return order;
  }

  // Turns as many as spare the link what the best step waits for, or a part of it; whether there was one.
  bool turn(double part) {
    std::vector<std::size_t> all(choices_.size());
    std::iota(all.begin(), all.end(), 0);
    const auto swap_us = [](const Choice& c) { return c.swap_us; };
    double waiting_us = part * best_waits_us_;
    bool turned = false;
    std::vector<std::size_t> order = by_saving(all, swap_us);
    std::stable_partition(order.begin(), order.end(),
                          [this](std::size_t i) { return choices_[i].way == Way::moves; });
    for (const std::size_t i : order) {
      if (waiting_us <= 0) break;
      Choice& c = choices_[i];
      const std::optional<double> price_us = lineage_.price_us(c.gap);  // as it has become
      if (!price_us || *price_us >= c.swap_us) continue;
      c.way = Way::made_again;
      lineage_.keep(c.gap);
      lineage_.drop(c.gap);
      waiting_us -= c.swap_us;
      turned = true;
    }
    return turned;
  }

  // Who was to move and has room now stays, the least free first.
  void let_stay() {
    Residency residency(trace_);
    for (const Choice& c : choices_) {
      if (c.way != Way::stays) residency.remove(c.gap.from + 1, c.gap.to, bytes_of(c));
    }
    for (auto c = choices_.rbegin(); c != choices_.rend(); ++c) {
      const std::uint64_t bytes = bytes_of(*c);
      if (c->way != Way::moves || bytes > limit() || is_short(residency, c->gap, limit() - bytes)) continue;
      residency.add(c->gap.from + 1, c->gap.to, bytes);
      c->way = Way::stays;
    }
  }
};

}  // namespace

Result<wire::Schedule> plan_capuchin_swap(const wire::Trace& trace, const Machine& machine) {
  return ok(Capuchin(trace, machine, false).best_of_swaps());
}

Result<wire::Schedule> plan_capuchin(const wire::Trace& trace, const Machine& machine) {
  return ok(Capuchin(trace, machine, true).best());
}

}  // namespace terrace::planner
