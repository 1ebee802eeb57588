// The search over runs: valid, never dearer than where it begins, at the exhaustive optimum of small steps.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/recompute/dtr/dtr.h"
#include "daemon/planner/recompute/search/runs.h"
#include "daemon/planner/recompute/search/search.h"
#include "daemon/planner/recompute/static/policies.h"
#include "tests/planner/recompute/random_steps.h"
#include "tests/planner/recompute/shortest.h"

namespace terrace::planner::recompute {
namespace {

SearchOptions short_search(std::uint64_t seed = 0) {
  SearchOptions options;
  options.seed = seed;
  options.effort = 1e-3;
  options.relaxation = relaxation_policy();
  return options;
}

std::int64_t least_of_rules_ns(const Step& step, std::uint64_t budget_bytes) {
  std::int64_t least_ns = std::numeric_limits<std::int64_t>::max();
  for (const NamedHeuristic& rule : dtr_heuristics()) {
    const DtrReport r = run_dtr(step, {.heuristic = rule.kind, .budget_bytes = budget_bytes});
    if (r.outcome == DtrOutcome::finished) least_ns = std::min(least_ns, r.cost_ns);
  }
  return least_ns;
}

bool same_moves(const Schedule& a, const Schedule& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Move& x, const Move& y) { return x.kind == y.kind && x.index == y.index; });
}

}  // namespace

TEST_CASE("Runs become the schedule that frees as early as it can, and holding tells its peak") {
  std::uint32_t checked = 0;
  for (std::uint32_t layers = 4; layers < 40; ++layers) {
    const Step step = test::unit_chain(layers);
    const std::uint64_t budget = (least_bytes_of(step) + peak_bytes_of(step)) / 2;
    const DtrReport dtr = run_dtr(step, {.budget_bytes = budget});
    if (dtr.outcome != DtrOutcome::finished) continue;
    const Runs runs = runs_of(dtr.schedule);
    const Price price = check_schedule(step, schedule_of(step, runs), budget);
    INFO(layers << " layers " << price.wrong);
    REQUIRE(price.wrong.empty());
    REQUIRE(price.cost_ns == dtr.cost_ns);
    Holding holding(step);
    holding.look(runs);
    REQUIRE(holding.peak().bytes == price.peak_bytes);
    ++checked;
  }
  CHECK(checked > 20);
}

TEST_CASE("The search is never dearer than any rule, and fits where it says so") {
  std::uint32_t better = 0, found_alone = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const Step step = test::random_step(seed, 30);
    const std::uint64_t least = least_bytes_of(step);
    for (const std::uint64_t tenths : {2, 5, 8}) {
      const std::uint64_t budget = least + (peak_bytes_of(step) - least) * tenths / 10;
      const auto found = search_recomputation(step, budget, short_search());
      const std::int64_t rules_ns = least_of_rules_ns(step, budget);
      const bool none = rules_ns == std::numeric_limits<std::int64_t>::max();
      INFO("seed " << seed << ", " << tenths << " tenths: " << found.error);
      REQUIRE((found || none));
      if (!found) continue;
      const Price price = check_schedule(step, *found, budget);
      REQUIRE(price.wrong.empty());
      REQUIRE(price.cost_ns <= rules_ns);
      better += !none && price.cost_ns < rules_ns ? 1 : 0;
      found_alone += none ? 1 : 0;
    }
  }
  CHECK(better > 5);
  CHECK(found_alone > 0);
}

TEST_CASE("The search finds the optimum of small chains") {
  std::uint32_t checked = 0, optimal = 0;
  for (std::uint32_t layers = 2; layers <= 6; ++layers) {
    const Step step = test::unit_chain(layers);
    for (std::uint64_t budget = least_bytes_of(step); budget < peak_bytes_of(step); ++budget) {
      const auto least_ns = test::least_cost_ns(step, budget);
      const auto found = search_recomputation(step, budget, short_search());
      if (!least_ns) {
        CHECK_FALSE(found);
        continue;
      }
      ++checked;
      REQUIRE(found);
      const Price price = check_schedule(step, *found, budget);
      REQUIRE(price.wrong.empty());
      REQUIRE(price.cost_ns >= *least_ns);
      optimal += price.cost_ns == *least_ns ? 1 : 0;
    }
  }
  CHECK(checked > 5);
  CHECK(optimal == checked);
}

TEST_CASE("The search gives the same for a seed, stops when told, and refuses what cannot fit") {
  const Step step = test::random_step(4, 25);
  const std::uint64_t budget = (least_bytes_of(step) + peak_bytes_of(step)) / 2;
  const auto first = search_recomputation(step, budget, short_search(3));
  const auto second = search_recomputation(step, budget, short_search(3));
  REQUIRE(first);
  REQUIRE(second);
  CHECK(same_moves(*first, *second));
  SearchOptions stopped;
  stopped.relaxation = relaxation_policy();
  int asked = 0;
  stopped.stop = [&] { return ++asked > 5; };
  CHECK(search_recomputation(step, budget, stopped));
  CHECK(asked < 10);
  const auto none = search_recomputation(step, least_bytes_of(step) - 1, short_search());
  CHECK(none.error.find("needs " + std::to_string(least_bytes_of(step))) != std::string::npos);
}

TEST_CASE("Checkmate's relaxation asks at each iteration whether to stop, and the search hands that on") {
  const Step step = test::unit_chain(30);
  const std::uint64_t budget = (least_bytes_of(step) + peak_bytes_of(step)) / 2;
  int asked = 0;
  REQUIRE(checkmate_rounded(step, budget, [&] { return ++asked < 0; }));
  CHECK(asked > 100);
  const int of_whole = asked;
  asked = 0;
  const auto stopped = checkmate_rounded(step, budget, [&] { return ++asked > 20; });
  CHECK(stopped.error.find("stopped") != std::string::npos);
  CHECK(asked < of_whole / 2);
}

}  // namespace terrace::planner::recompute
