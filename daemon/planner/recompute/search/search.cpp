#include "daemon/planner/recompute/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "daemon/planner/recompute/dtr/dtr.h"
#include "daemon/planner/recompute/search/runs.h"

namespace terrace::planner::recompute {
namespace {

constexpr double most_runs_looked_at = 1.2e8;
constexpr std::size_t most_operations_of_segments = 3000;  // Chen's take the square of them
constexpr std::size_t longest_chain = 200;                 // runs that are put in to make one storage again
constexpr int most_repairs = 300;                          // of one change
constexpr double first_margin = 3e-3;                      // of the cost of computing once
constexpr double most_noise = 1.5;                         // of the logarithm of bytes for cost
constexpr std::int64_t most_times = 3;                     // computing once, where nothing is known to fit
constexpr int first_tries = 12;                            // from everything held
// What a link's time costs in a repair, of the same time of computing, as powers of ten.
constexpr double cheapest_carrying = -2, dearest_carrying = 1;

class RunSearch {
 public:
  RunSearch(const Step& step, std::uint64_t budget_bytes, const SearchOptions& options)
      : step_(step),
        budget_bytes_(budget_bytes),
        options_(options),
        random_(options.seed),
        holding_(step),
        put_in_(step.operations.size(), 0) {}

  RunSearch(const Step& step, std::uint64_t budget_bytes, const SearchOptions& options, const Link& link)
      : RunSearch(step, budget_bytes, options) {
    link_ = &link;
  }

  Result<CarriedRuns> best_beside_link(const CarriedRuns& from) {
    if (!from.runs.empty()) try_runs(from);
    if (best_ns_ == none) try_from_everything_held();
    if (best_ns_ == none) return refused<CarriedRuns>("no runs were found that fit beside the link");
    improve();
    return ok(CarriedRuns{best_, best_carried_});
  }

  Result<Schedule> best() {
    try_rules();
    try_from_everything_held();
    if (best_ns_ == none) return refused<Schedule>("no schedule was found that fits");
    improve();
    return ok(schedule_of(step_, best_));
  }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

  const Step& step_;
  std::uint64_t budget_bytes_;
  const SearchOptions& options_;
  std::mt19937_64 random_;
  Holding holding_;
  Runs best_;
  std::int64_t best_ns_ = none;
  double looked_at_ = 0;  // runs
  std::vector<Holding::Rest> rests_;
  std::vector<std::uint32_t> put_in_;  // per operation: number of the chain that has it
  std::uint32_t chains_ = 0;
  // Beside a link; null: there is none.
  const Link* link_ = nullptr;
  std::vector<Carried> carried_, best_carried_;  // beside the runs at work, and the best ones
  std::vector<std::uint32_t> in_vain_;           // storages of this repair: the link has no time for them
  double carrying_ = 0;                          // of this repair: what the link's time costs

  double fraction() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  bool stopped() const { return options_.stop && options_.stop(); }
  double most_work() const { return most_runs_looked_at * options_.effort; }
  bool is_perfect() const { return best_ns_ <= step_.cost_ns; }

  void look(const Runs& runs) {
    looked_at_ += static_cast<double>(runs.size() + carried_.size());
    if (link_ == nullptr) {
      holding_.look(runs);
    } else {
      holding_.look(runs, carried_, *link_);
    }
  }

  void offer(const Runs& runs, std::int64_t cost_ns) {
    if (cost_ns >= best_ns_) return;
    best_ = runs;
    best_carried_ = carried_;
    best_ns_ = cost_ns;
  }

  // --- where it begins

  void try_rules() {
    for (const NamedHeuristic& rule : dtr_heuristics()) {
      if (best_ns_ != none && (is_perfect() || stopped())) return;
      const DtrReport report = run_dtr(step_, {.heuristic = rule.kind, .budget_bytes = budget_bytes_});
      if (report.outcome == DtrOutcome::finished) try_schedule(report.schedule);
    }
    std::vector<StaticPolicy> policies = direct_policies();
    if (options_.relaxation) policies.push_back(*options_.relaxation);
    for (const StaticPolicy& policy : policies) {
      const bool segments = policy.name.starts_with("Chen");
      if (segments && step_.operations.size() > most_operations_of_segments) continue;
      if (best_ns_ != none && (is_perfect() || stopped())) return;
      const auto schedule = policy.plan(step_, budget_bytes_, options_.stop);
      if (schedule) try_schedule(*schedule);
    }
  }

  void try_schedule(const Schedule& schedule) {
    const Price price = check_schedule(step_, schedule, budget_bytes_);
    if (!price.wrong.empty()) return;
    Runs runs = runs_of(schedule);
    remove_unused(&runs);
    offer(runs, cost_ns_of(step_, runs));
  }

  void try_runs(const CarriedRuns& from) {
    Runs runs = from.runs;
    carried_ = from.carried;
    remove_unused(&runs);
    if (repair(&runs, 0, most_times * step_.cost_ns, static_cast<int>(runs.size())))
      offer(runs, cost_ns_of(step_, runs));
  }

  void try_from_everything_held() {
    for (int i = 0; i < first_tries && !is_perfect() && (best_ns_ == none || !stopped()); ++i) {
      Runs runs(step_.operations.size());
      for (std::uint32_t op = 0; op < runs.size(); ++op) runs[op] = op;
      carried_.clear();
      if (repair(&runs, most_noise * i / first_tries, most_times * step_.cost_ns,
                 static_cast<int>(runs.size())))
        offer(runs, cost_ns_of(step_, runs));
    }
  }

  // --- changes

  void improve() {
    Runs current = best_;
    std::vector<Carried> current_carried = best_carried_;
    std::int64_t current_ns = best_ns_;
    const double begin = looked_at_;
    while (looked_at_ - begin < most_work() && !is_perfect() && !stopped()) {
      const double left = 1 - (looked_at_ - begin) / most_work();
      Runs changed = current;
      carried_ = current_carried;
      if (!ruin(&changed)) return;
      const auto margin =
          static_cast<std::int64_t>(first_margin * left * left * static_cast<double>(step_.cost_ns));
      const std::int64_t most_ns = current_ns + margin;
      if (!repair(&changed, most_noise * fraction(), most_ns, most_repairs)) continue;
      const std::int64_t cost_ns = cost_ns_of(step_, changed);
      if (cost_ns > most_ns) continue;
      current = std::move(changed);
      current_carried = carried_;
      current_ns = cost_ns;
      offer(current, current_ns);
    }
  }

  // Takes out one run to eight that compute again, beside each other; whether there was one.
  bool ruin(Runs* runs) {
    std::vector<char> ran(step_.operations.size(), 0);
    std::vector<std::uint32_t> again;
    for (std::uint32_t run = 0; run < runs->size(); ++run) {
      if (ran[(*runs)[run]] != 0) again.push_back(run);
      ran[(*runs)[run]] = 1;
    }
    if (again.empty()) return false;
    if (!carried_.empty() && random_() % 4 == 0) {
      let_stay();
      if (random_() % 2 == 0) return true;
    }
    const std::size_t first = random_() % again.size();
    const std::size_t count = std::min<std::size_t>(std::size_t{1} << (random_() % 4), again.size() - first);
    std::vector<char> out(runs->size(), 0);
    for (std::size_t i = first; i < first + count; ++i) out[again[i]] = 1;
    erase(runs, out);
    remove_unused(runs);
    return true;
  }

  // One content to eight that were carried.
  void let_stay() {
    const std::size_t count = std::min<std::size_t>(std::size_t{1} << (random_() % 4), carried_.size());
    const auto first =
        carried_.begin() + static_cast<std::ptrdiff_t>(random_() % (carried_.size() - count + 1));
    carried_.erase(first, first + static_cast<std::ptrdiff_t>(count));
  }

  static void erase(Runs* runs, const std::vector<char>& out) {
    std::size_t kept = 0;
    for (std::size_t run = 0; run < runs->size(); ++run)
      if (out[run] == 0) (*runs)[kept++] = (*runs)[run];
    runs->resize(kept);
  }

  // Runs whose results nobody reads, but for the only run of an operation; leaves the runs looked at.
  void remove_unused(Runs* runs) {
    std::vector<std::uint32_t> times(step_.operations.size(), 0);
    for (const std::uint32_t op : *runs) ++times[op];
    for (bool any = true; any;) {
      any = false;
      look(*runs);
      std::vector<char> out(runs->size(), 0);
      for (std::uint32_t run = static_cast<std::uint32_t>(runs->size()); run-- > 0;) {
        if (holding_.is_used(run) || times[(*runs)[run]] == 1) continue;
        --times[(*runs)[run]];
        out[run] = 1;
        any = true;
      }
      if (any) erase(runs, out);
    }
  }

  // --- repairs

  // Lets go and computes again until all fits; false: it does not, or costs more than `most_ns`.
  bool repair(Runs* runs, double noise, std::int64_t most_ns, int most) {
    if (link_ != nullptr) {
      in_vain_.clear();
      carrying_ = std::pow(10, cheapest_carrying + (dearest_carrying - cheapest_carrying) * fraction());
    }
    std::int64_t cost_ns = cost_ns_of(step_, *runs);
    look(*runs);
    for (int i = 0; holding_.peak().bytes > budget_bytes_; ++i) {
      if (i == most || cost_ns > most_ns || !relieve(runs, noise, &cost_ns)) return false;
      look(*runs);
    }
    remove_unused(runs);
    if (link_ != nullptr) forget_idle();
    return true;
  }

  double disturbed(double value, double noise) { return value * std::exp(noise * (fraction() - 0.5) * 2); }

  bool relieve(Runs* runs, double noise, std::int64_t* cost_ns) {
    holding_.rests_at(holding_.peak().run, *runs, &rests_);
    std::vector<std::uint32_t> best_chain, chain;
    std::optional<Carried> best_carried;
    double best_value = -1;
    std::uint32_t best_needed = 0;
    std::int64_t best_chain_ns = 0;
    for (const Holding::Rest& rest : rests_) {
      const auto bytes = static_cast<double>(step_.storages[rest.storage].bytes);
      if (link_ != nullptr && bytes != 0) {
        const std::optional<Carried> c = carried_over(rest);
        const double value = c ? disturbed(1 / (carrying_ * link_->out_ns_per_byte), noise) : -1;
        if (c && value > best_value) {
          best_value = value;
          best_carried = c;
        }
      }
      std::int64_t chain_ns = 0;
      chain.clear();
      if (bytes == 0 || step_.storages[rest.storage].constant() || !chain_of(rest, &chain, &chain_ns))
        continue;
      const double value = disturbed(bytes / static_cast<double>(chain_ns + 1), noise);
      if (value <= best_value) continue;
      best_carried.reset();
      best_value = value;
      best_chain = chain;
      best_needed = rest.needed;
      best_chain_ns = chain_ns;
    }
    if (best_carried) return carry(*runs, *best_carried), true;
    if (best_chain.empty()) return false;
    *cost_ns += best_chain_ns;
    runs->insert(runs->begin() + best_needed, best_chain.begin(), best_chain.end());
    return true;
  }

  // --- what is carried

  // What rests at the peak over that run, where the link alone would have time for both ways around it.
  std::optional<Carried> carried_over(const Holding::Rest& rest) const {
    const Timetable& times = holding_.times();
    const std::uint32_t run = holding_.peak().run;
    const Storage& storage = step_.storages[rest.storage];
    const Carried c{rest.storage, times.position[run] + 1};
    if (rest.needed >= times.position.size() || times.position[rest.needed] < c.over) return std::nullopt;
    if (storage.readers.empty() || storage.readers.back() < c.over) return std::nullopt;
    if (times.start_ns[rest.last + 1] + link_->out_ns(storage.bytes) > times.start_ns[run] ||
        times.start_ns[rest.needed] - link_->in_ns(storage.bytes) < times.start_ns[run + 1])
      return std::nullopt;
    if (std::find(in_vain_.begin(), in_vain_.end(), c.storage) != in_vain_.end()) return std::nullopt;
    const auto next_reader = [&](std::uint32_t over) {
      return std::lower_bound(storage.readers.begin(), storage.readers.end(), over);
    };
    const bool twice = std::any_of(carried_.begin(), carried_.end(), [&](const Carried& other) {
      return other.storage == c.storage && next_reader(other.over) == next_reader(c.over);
    });
    return twice ? std::nullopt : std::optional(c);
  }

  void carry(const Runs& runs, const Carried& c) {
    carried_.push_back(c);
    look(runs);
    const Absence& a = holding_.carrying().absences().back();
    if (a.begin < a.end) return;
    in_vain_.push_back(c.storage);
    carried_.pop_back();
  }

  // As looked at last: what the link has no time for, or is not needed any more.
  void forget_idle() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      const Absence& a = holding_.carrying().absences()[i];
      if (a.begin < a.end) carried_[kept++] = carried_[i];
    }
    carried_.resize(kept);
  }

  // The runs that make a storage again where it is needed next, with all that is not held over there.
  bool chain_of(const Holding::Rest& rest, std::vector<std::uint32_t>* chain, std::int64_t* chain_ns) {
    ++chains_;
    const auto add = [&](std::uint32_t storage) {
      const std::uint32_t maker = step_.storages[storage].maker;
      if (!step_.operations[maker].repeatable) return false;
      if (put_in_[maker] == chains_) return true;
      put_in_[maker] = chains_;
      chain->push_back(maker);
      *chain_ns += step_.operations[maker].cost_ns;
      return chain->size() <= longest_chain;
    };
    if (!add(rest.storage)) return false;
    for (std::size_t i = 0; i < chain->size(); ++i) {
      for (const std::uint32_t s : step_.operations[(*chain)[i]].reads) {
        if (step_.storages[s].constant() || (s != rest.storage && holding_.holds_over(s, rest.needed)))
          continue;
        if (!add(s)) return false;
      }
    }
    std::sort(chain->begin(), chain->end());  // operations stand in an order that respects who reads what
    return true;
  }
};

}  // namespace

Result<Schedule> search_recomputation(const Step& step, std::uint64_t budget_bytes,
                                      const SearchOptions& options) {
  if (const std::uint64_t least = least_bytes_of(step); least > budget_bytes)
    return refused<Schedule>("no schedule fits into " + std::to_string(budget_bytes) +
                             " bytes: the step needs " + std::to_string(least) + " at least");
  return RunSearch(step, budget_bytes, options).best();
}

Result<CarriedRuns> search_beside_link(const Step& step, std::uint64_t budget_bytes, const Link& link,
                                       const CarriedRuns& from, const SearchOptions& options) {
  return RunSearch(step, budget_bytes, options, link).best_beside_link(from);
}

}  // namespace terrace::planner::recompute
