// moDNN (Chen, Chen, Hu, DATE 2018): offloading, prefetching, algorithms and sub-batches against a budget.
//
// From its abstract: heuristics that overlap computing and transfers schedule what is offloaded and
// prefetched, together with the selection of training algorithms and of sub-batch sizes, so that the step
// matches any budget above a lower bound. The paper's text was not at hand. Reconstructed so:
//
// Every operation begins with its fastest variant (another algorithm, or its batch cut in parts that run one
// after the other) and every tensor stays. Where that exceeds the budget there are two kinds of remedy: a
// tensor rests elsewhere between two uses, or an operation takes a variant with less workspace. Each has a
// price in time for the bytes that it frees: of a variant the time that it takes more; of a rest what its two
// transfers take beyond the rest's length, and a share of the transfers, since hidden ones fill the link all
// the same. Cheapest first, as long as an operation that it helps exceeds the budget. Everything leaves at
// once and returns as early as there is room.
//
// Which share is right depends on how full the link gets, and how much of the budget is lost to transfers
// that are late depends on all of it, so several of both are tried by simulation and the fastest plan wins.
// Otherwise than moDNN, whose sub-batches cut the tensors of a layer as well: a variant here has the tensors
// of its operation, and frees workspace alone.
#include <algorithm>
#include <limits>
#include <optional>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"
#include "daemon/planner/variants.h"

namespace terrace::planner {
namespace {

struct Setting {
  double link_share;    // of a transfer's time, beside what it exposes
  double budget_share;  // of tier 0
};
// The most promising first: of large steps only some are tried.
constexpr Setting modnn_settings[] = {{0.3, 1},   {0.3, 0.95}, {1, 1},     {0.05, 1}, {3, 1},   {1, 0.95},
                                      {0.3, 0.9}, {1, 0.9},    {0.3, 0.8}, {3, 0.9},  {1, 0.8}, {0.3, 0.6}};
constexpr std::size_t most_simulated_operations = 400'000, fewest_settings = 2;

// What frees memory, at a price.
struct Remedy {
  enum class Kind : std::uint8_t { rests_elsewhere, takes_variant };
  Kind kind = Kind::rests_elsewhere;
  double us_per_byte = 0;
  Gap gap;                            // of what rests elsewhere
  std::uint32_t op = 0, variant = 0;  // of what takes a variant; 0: the operation's own way
};

class Modnn {
 public:
  Modnn(const wire::Trace& trace, const Machine& machine)
      : trace_(trace), machine_(machine), gaps_(gaps_of(trace)) {
    for (const wire::TraceOp& op : trace.ops) fastest_.push_back(fastest_within(op, unlimited_bytes));
    fast_ = with_variants(trace, choices_of(fastest_));
    starts_us_ = ideal_starts_us(fast_);
  }

  wire::Schedule plan(const Setting& setting) const {
    const auto budget = static_cast<std::uint64_t>(setting.budget_share *
                                                   static_cast<double>(machine_.tiers[0].capacity_bytes));
    const auto ops = static_cast<std::uint32_t>(trace_.ops.size());
    std::vector<std::uint32_t> variants = fastest_;
    Residency residency(fast_);
    FarTiers far(trace_, machine_);
    std::vector<Offload> offloads;
    for (const Remedy& r : remedies(far, setting.link_share)) {
      if (residency.most() <= budget) break;
      if (r.kind == Remedy::Kind::rests_elsewhere) {
        rest(r.gap, ops, budget, &residency, &far, &offloads);
      } else {
        shrink(r, budget, &residency, &variants);
      }
    }
    const wire::Trace chosen = with_variants(trace_, choices_of(variants));
    wire::Schedule s = sorted_schedule(trace_, "modnn", moves_of(chosen, machine_, 0, std::move(offloads)));
    s.variants = choices_of(variants);
    return s;
  }

  double fastest_us() const { return starts_us_.back(); }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  std::vector<Gap> gaps_;
  std::vector<std::uint32_t> fastest_;  // by operation
  wire::Trace fast_;                    // the step with these
  std::vector<double> starts_us_;       // of its operations

  double rest_us(const Gap& gap) const {
    const double end = gap.wraps ? starts_us_.back() + starts_us_[gap.to] : starts_us_[gap.to];
    return end - starts_us_[gap.from + 1];
  }

  std::vector<Remedy> remedies(const FarTiers& far, double link_share) const {
    std::vector<Remedy> all;
    for (std::size_t i = 0; far.any() && i < gaps_.size(); ++i) {
      const std::uint64_t bytes = trace_.tensors[gaps_[i].tensor].bytes;
      const std::uint32_t tier = far.tiers().front();
      const double moves_us = far.transfer_us(tier, bytes, false) + far.transfer_us(tier, bytes, true);
      const double price_us = std::max(0.0, moves_us - rest_us(gaps_[i])) + link_share * moves_us;
      all.push_back({Remedy::Kind::rests_elsewhere, price_us / static_cast<double>(bytes), gaps_[i], 0, 0});
    }
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) add_variants(op, &all);
    std::stable_sort(all.begin(), all.end(),
                     [](const Remedy& a, const Remedy& b) { return a.us_per_byte < b.us_per_byte; });
    return all;
  }

  // Those with less workspace than the fastest.
  void add_variants(std::uint32_t op, std::vector<Remedy>* all) const {
    const wire::TraceOp& o = trace_.ops[op];
    const double fast_us = time_us(o, fastest_[op]);
    const std::uint64_t fast_bytes = workspace_bytes(o, fastest_[op]);
    for (std::uint32_t v = 0; v <= o.variants.size(); ++v) {
      const std::uint64_t bytes = workspace_bytes(o, v);
      if (bytes >= fast_bytes) continue;
      all->push_back({Remedy::Kind::takes_variant,
                      (time_us(o, v) - fast_us) / static_cast<double>(fast_bytes - bytes),
                      {},
                      op,
                      v});
    }
  }

  void rest(const Gap& gap, std::uint32_t ops, std::uint64_t budget, Residency* residency, FarTiers* far,
            std::vector<Offload>* offloads) const {
    const bool helps =
        gap.wraps ? residency->exceeds(gap.from + 1, ops, budget) || residency->exceeds(0, gap.to, budget)
                  : residency->exceeds(gap.from + 1, gap.to, budget);
    if (!helps) return;
    const std::uint64_t bytes = trace_.tensors[gap.tensor].bytes;
    const std::optional<std::uint32_t> tier = far->place(gap, bytes);
    if (!tier) return;
    if (gap.wraps) {
      residency->remove(gap.from + 1, ops, bytes);
      residency->remove(0, gap.to, bytes);
    } else {
      residency->remove(gap.from + 1, gap.to, bytes);
    }
    offloads->push_back({gap, *tier, 0});
  }

  void shrink(const Remedy& r, std::uint64_t budget, Residency* residency,
              std::vector<std::uint32_t>* variants) const {
    const wire::TraceOp& op = trace_.ops[r.op];
    const std::uint64_t now = workspace_bytes(op, (*variants)[r.op]), then = workspace_bytes(op, r.variant);
    if (then >= now || !residency->exceeds(r.op, r.op + 1, budget)) return;
    residency->remove(r.op, r.op + 1, now - then);
    (*variants)[r.op] = r.variant;
  }
};

}  // namespace

Result<SwapPlan> plan_modnn(const wire::Trace& trace, const Machine& machine, const SwapControl& control) {
  const Modnn modnn(trace, machine);
  const std::size_t settings = std::clamp(most_simulated_operations / (trace.ops.size() + 1), fewest_settings,
                                          std::size(modnn_settings));
  Result<SwapPlan> best = refused<SwapPlan>("the search was stopped before it had a plan");
  double best_us = std::numeric_limits<double>::infinity();
  std::string why_not;
  for (std::size_t i = 0; i < settings; ++i) {
    if (i > 0 && control.stopped()) break;
    wire::Schedule schedule = modnn.plan(modnn_settings[i]);
    const auto report = simulate_repeated(trace, machine, schedule, Victims::none);
    if (!report) why_not = report.error;
    if (!report || report->total_us >= best_us) continue;
    best_us = report->total_us;
    best = ok(SwapPlan{std::move(schedule), Victims::none});
    if (best_us <= modnn.fastest_us()) break;
  }
  if (!best) return refused<SwapPlan>(std::move(why_not));
  return best;
}

}  // namespace terrace::planner
