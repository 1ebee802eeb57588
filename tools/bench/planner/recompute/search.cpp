// Our search over runs beside the best of DTR's rules and MSPS, at the budgets of DTR's authors' simulator:
// as it reports them, and as the same rules are here, whichever of both is cheaper.
#include "daemon/planner/recompute/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "daemon/planner/recompute/dtr/dtr.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/parts.h"
#include "tools/bench/planner/recompute/logs.h"

namespace terrace::bench {
namespace {

namespace recompute = planner::recompute;

constexpr const char* search_title =
    "Our search over runs beside the best of DTR's rules and MSPS, at simrd's budgets";
constexpr double none = std::numeric_limits<double>::infinity();
constexpr double equal_within = 1e-9;    // of a cost
constexpr double most_worse = 0.005;     // what a point may cost more than the best rule
constexpr double most_planning_s = 10;   // what a point may take
constexpr double better_on_share = 0.9;  // of the points that some rule finishes

struct Verdicts {
  std::uint32_t points = 0, better = 0, equal = 0, worse = 0, too_much_worse = 0;
  std::uint32_t ours_alone = 0, impossible = 0, open = 0;
  double most_s = 0;
};

// Of a valid schedule, to computing each operation once; infinite where it is none.
double cost_of(const recompute::Step& step, const recompute::Schedule& schedule, std::uint64_t budget_bytes) {
  const recompute::Price price = check_schedule(step, schedule, budget_bytes);
  if (!price.wrong.empty()) return none;
  return static_cast<double>(price.cost_ns) / static_cast<double>(step.cost_ns);
}

struct Best {
  double cost = none;
  std::string rule;
};

// Of the rules that the reference has: theirs are published, ours were made after them.
Best best_rule(const SimrdLog& log, double ratio, std::uint64_t budget_bytes) {
  Best best;
  const auto see = [&](double cost, const std::string& rule) {
    if (cost < best.cost) best = {cost, rule};
  };
  for (const auto& [heuristic, kind] : recompute::dtr_heuristics()) {
    const Json* point = log.point(heuristic, ratio);
    const std::string name(heuristic);
    if (point != nullptr && (*point)["status"] == "ok") see((*point)["overhead"].get<double>(), name);
    const recompute::DtrReport here = run_dtr(log.step, {.heuristic = kind, .budget_bytes = budget_bytes});
    if (here.outcome == recompute::DtrOutcome::finished)
      see(cost_of(log.step, here.schedule, budget_bytes), name);
  }
  return best;
}

std::string verdict_of(double ours, double best, bool impossible, Verdicts* all) {
  ++all->points;
  if (impossible) return ++all->impossible, "proven impossible";
  if (ours == none && best == none) return ++all->open, "open: nobody has a plan";
  if (best == none) return ++all->ours_alone, "ours alone";
  if (ours < best * (1 - equal_within)) return ++all->better, "better";
  if (ours <= best * (1 + equal_within)) return ++all->equal, "equal";
  if (ours > best * (1 + most_worse)) ++all->too_much_worse;
  return ++all->worse, "worse";
}

Json row_of(const SimrdLog& log, double ratio, std::uint64_t budget_bytes, Verdicts* all) {
  const double start = now_s();
  const auto found = recompute::search_recomputation(log.step, budget_bytes);
  const double seconds = now_s() - start;
  const double ours = found ? cost_of(log.step, *found, budget_bytes) : none;
  const Best best = best_rule(log, ratio, budget_bytes);
  const bool impossible = budget_bytes < recompute::least_bytes_of(log.step);
  all->most_s = std::max(all->most_s, seconds);
  Json row{{"log", log.model}, {"ratio", ratio}};
  if (ours < none) row["ours"] = ours;
  if (best.cost < none) row["best"] = best.cost;
  if (best.cost < none) row["rule"] = best.rule;
  row["seconds"] = seconds;
  row["verdict"] = verdict_of(ours, best.cost, impossible, all);
  row["met"] = (ours <= best.cost * (1 + most_worse) || impossible) && seconds <= most_planning_s &&
               (ours < none || impossible);
  return row;
}

}  // namespace

Json measure_recompute_search(const PlannerOptions& options) {
  const auto reference = data_file(options, simrd_reference_file);
  if (!reference) return skipped(search_title, std::string("no ") + simrd_reference_file + " in the data");
  Json out = section(search_title, {column("log", "log", "text"), column("ratio", "budget", "ratio"),
                                    column("ours", "ours", "ratio"), column("best", "best rule", "ratio"),
                                    column("rule", "", "text"), column("seconds", "planned in", "s"),
                                    column("verdict", "", "text"), column("met", "met", "yes")});
  Verdicts all;
  for (const SimrdLog& log : simrd_logs(options, *reference)) {
    if (!log.peaks_agree()) continue;
    for (const auto& [ratio, budget_bytes] : log.budgets())
      out["rows"].push_back(row_of(log, ratio, budget_bytes, &all));
  }
  const std::uint32_t compared = all.better + all.equal + all.worse;
  out["notes"] = {
      fmt::format("of {} points some rule finishes {}: ours is better on {}, equal on {}, worse on {} ({} by "
                  "more than {}%); wanted: better on {}%",
                  all.points, compared, all.better, all.equal, all.worse, all.too_much_worse,
                  100 * most_worse, 100 * better_on_share),
      fmt::format("no rule finishes {}: ours has a plan for {}, {} are proven impossible (an operation alone "
                  "needs more), {} are open",
                  all.points - compared, all.ours_alone, all.impossible, all.open),
      fmt::format("the slowest search took {:.1f} s; at most {} s are wanted", all.most_s, most_planning_s)};
  return out;
}

}  // namespace terrace::bench
