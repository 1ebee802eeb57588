// SwapAdvisor (Huang et al., ASPLOS'20): a genetic search whose plans a simulator times.
//
// The paper's text was not at hand. From its abstract and what others say of it: a chromosome holds an order
// of operations (SCH) and a map of sizes to pools with a number of objects each (MEM). Given both, the swaps
// follow: where an operation has no room, what its pool needs again last leaves (Belady), as early as its
// last use, and comes back as early as memory permits; a simulator with one stream to compute, one out and
// one in says how good that is. Parents are drawn by the softmax of their speed, children take a part up to a
// random cut from one and the rest from the other, some are mutated.
//
// Of the chromosome only what a schedule can say is left. The order of operations is the trace's, which
// `terrace plan --order` may have changed beforehand, and tier 0 counts bytes, in which pools bind nothing.
// What pools decide is who leaves for whom. So a gene is here one gap between two uses, and shifts the time
// of its next use, as Belady's rule sees it, by up to half a step to either side; all else is as above. The
// first plan has no shifts, so the search begins with Belady's. Reconstructed by guess: the number of
// parents, the share of genes that mutate, and that the two best survive. The paper searches half an hour
// with samples of 144; here the work is bounded by the number of plans.
#include "daemon/planner/simulate/policies/swapadvisor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "daemon/planner/simulate/gaps/eviction_walk.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

constexpr std::size_t parents = 16;
constexpr std::size_t survivors = 2;
constexpr int most_shift = 4;           // of a gene, in eighths of a step
constexpr std::uint64_t mutating = 32;  // one gene in so many

using Genes = std::vector<std::int8_t>;  // one for each gap of the walk, in the order of their begins

struct Individual {
  Genes genes;
  wire::Schedule schedule;
  double time_us = 0;
};

class Search {
 public:
  Search(const wire::Trace& trace, const Machine& machine, const SwapAdvisorOptions& options)
      : trace_(trace),
        machine_(machine),
        options_(options),
        random_(options.seed),
        walk_(trace, machine.tiers[0].capacity_bytes, 0),
        starts_us_(ideal_starts_us(trace)),
        gene_of_gap_(walk_.gaps().size()) {
    std::vector<std::uint32_t> by_begin(walk_.gaps().size());
    std::iota(by_begin.begin(), by_begin.end(), 0);
    std::stable_sort(by_begin.begin(), by_begin.end(), [this](std::uint32_t a, std::uint32_t b) {
      return walk_.gaps()[a].from < walk_.gaps()[b].from;
    });
    for (std::uint32_t gene = 0; gene < by_begin.size(); ++gene) gene_of_gap_[by_begin[gene]] = gene;
  }

  wire::Schedule best() {
    grow(Genes(gene_of_gap_.size(), 0));
    const std::uint64_t ops = std::max<std::uint64_t>(trace_.ops.size(), 1);
    std::uint64_t plans =
        std::clamp<std::uint64_t>(options_.most_operations / ops, options_.fewest_plans, options_.most_plans);
    while (--plans > 0 && !perfect() && !(options_.stop && options_.stop())) grow(child());
    return population_.front().schedule;
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const SwapAdvisorOptions& options_;
  std::mt19937_64 random_;
  EvictionWalk walk_;
  std::vector<double> starts_us_;
  std::vector<std::uint32_t> gene_of_gap_;
  std::vector<Individual> population_;  // the best first

  bool perfect() const {
    const Individual& best = population_.front();
    return best.schedule.entries.empty() || best.genes.empty() || best.time_us <= starts_us_.back();
  }
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  // Adds the plan where it belongs; the last one makes room, if there are too many.
  void grow(Genes genes) {
    Individual made{std::move(genes), {}, 0};
    made.schedule = plan(made.genes);
    const auto report = simulate_repeated(trace_, machine_, made.schedule, Victims::belady);
    made.time_us = report ? report->total_us : std::numeric_limits<double>::infinity();
    const auto place =
        std::upper_bound(population_.begin(), population_.end(), made,
                         [](const Individual& a, const Individual& b) { return a.time_us < b.time_us; });
    population_.insert(place, std::move(made));
    if (population_.size() > parents) population_.erase(population_.begin() + victim());
  }

  // Any but the best ones, the slower the likelier: the slowest of two draws.
  std::ptrdiff_t victim() {
    const std::uint64_t others = population_.size() - survivors;
    return static_cast<std::ptrdiff_t>(survivors + std::max(below(others), below(others)));
  }

  wire::Schedule plan(const Genes& genes) const {
    const double step_us = starts_us_.back();
    FarTiers far(trace_, machine_);
    std::vector<Offload> offloads;
    const auto next_use = [&](std::uint32_t gap, bool before_first_use) {
      const Gap& g = walk_.gaps()[gap];
      const double laps = g.wraps && !before_first_use ? 1 : 0;
      const double shift = static_cast<double>(genes[gene_of_gap_[gap]]) / (2 * most_shift);
      return -std::llround((starts_us_[g.to] + step_us * (laps + shift)) * 1e3);
    };
    for (const Leaving& leaving : walk_.run(next_use)) {
      const Gap& gap = walk_.gaps()[leaving.gap];
      const std::optional<std::uint32_t> tier = far.place(gap, trace_.tensors[gap.tensor].bytes);
      if (tier) offloads.push_back({gap, *tier, {}});
    }
    return sorted_schedule(trace_, "swapadvisor", moves_of(trace_, machine_, 0, std::move(offloads)));
  }

  Genes child() {
    const Genes& mother = parent();
    Genes genes = parent();
    const auto cut = static_cast<std::ptrdiff_t>(below(genes.size() + 1));
    std::copy(mother.begin(), mother.begin() + cut, genes.begin());
    for (std::uint64_t mutations = 1 + genes.size() / mutating; mutations > 0; --mutations)
      genes[below(genes.size())] =
          static_cast<std::int8_t>(static_cast<int>(below(2 * most_shift + 1)) - most_shift);
    return genes;
  }

  // By the softmax of their speeds, of which the best has 1 and the slowest 0.
  const Genes& parent() {
    const double fastest = 1 / population_.front().time_us, slowest = 1 / population_.back().time_us;
    std::vector<double> sums;
    double sum = 0;
    for (const Individual& one : population_) {
      const double speed = fastest > slowest ? (1 / one.time_us - slowest) / (fastest - slowest) : 1;
      sums.push_back(sum += std::exp(speed));
    }
    const double drawn = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;
    const auto found = std::upper_bound(sums.begin(), sums.end(), drawn);
    const auto last = static_cast<std::ptrdiff_t>(population_.size()) - 1;
    return population_[static_cast<std::size_t>(std::min(found - sums.begin(), last))].genes;
  }
};

}  // namespace

Result<wire::Schedule> search_swaps(const wire::Trace& trace, const Machine& machine,
                                    const SwapAdvisorOptions& options) {
  return ok(Search(trace, machine, options).best());
}

Result<wire::Schedule> plan_swapadvisor_first(const wire::Trace& trace, const Machine& machine) {
  SwapAdvisorOptions options;
  options.fewest_plans = options.most_plans = 1;
  Result<wire::Schedule> first = search_swaps(trace, machine, options);
  first->policy = "swapadvisor_first";
  return first;
}

Result<SwapPlan> plan_swapadvisor(const wire::Trace& trace, const Machine& machine,
                                  const SwapControl& control) {
  SwapAdvisorOptions options;
  options.seed = control.seed;
  options.stop = control.stop;
  const auto times = [&](std::uint64_t number) {
    return static_cast<std::uint64_t>(static_cast<double>(number) * control.effort);
  };
  options.most_operations = times(options.most_operations);
  options.most_plans = std::max(options.fewest_plans, static_cast<std::uint32_t>(times(options.most_plans)));
  Result<wire::Schedule> found = search_swaps(trace, machine, options);
  return ok(SwapPlan{std::move(*found), Victims::belady});
}

}  // namespace terrace::planner
