// What a link carries beside runs: accounts by hand, and the search beside it against a replay of its own.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "daemon/planner/recompute/search/search.h"
#include "tests/planner/recompute/random_steps.h"

namespace terrace::planner::recompute {
namespace {

constexpr Link ns_a_byte{1, 1, 0};

// 0 makes a of 4 bytes; 1 to 8 take 2 ns each and make nothing that stays; 9 reads a.
Step one_that_rests() {
  StepBuilder builder;
  builder.add_operation(2, {});
  const std::uint32_t a = builder.add_result(4);
  for (int i = 0; i < 8; ++i) builder.add_operation(2, {});
  builder.add_operation(2, {a});
  builder.add_result(1);
  return builder.finish();
}

Runs all_once(const Step& step) {
  Runs runs(step.operations.size());
  std::iota(runs.begin(), runs.end(), 0U);
  return runs;
}

Absence absence_of(const Step& step, const Runs& runs, const std::vector<Carried>& carried,
                   const Link& link = ns_a_byte, std::size_t which = 0) {
  Holding holding(step);
  holding.look(runs, carried, link);
  REQUIRE(holding.carrying().absences().size() == carried.size());
  return holding.carrying().absences()[which];
}

// Of each run, from what is carried and when, by the book: nothing of Holding.
class Replay {
 public:
  Replay(const Step& step, const CarriedRuns& found, const Link& link) : step_(step), found_(found) {
    std::uint32_t next = 0;
    start_ns_.push_back(0);
    for (const std::uint32_t op : found.runs) {
      position_.push_back(std::max(op, next));
      next = std::max(next, op + 1);
      start_ns_.push_back(start_ns_.back() + step.operations[op].cost_ns);
    }
    for (const Carried& c : found.carried) trips_.push_back(trip(c));
    time_trips(link);
  }

  // Empty: all that is read is there, and no run needs more than this.
  std::string wrong(std::uint64_t budget_bytes) const {
    std::vector<bool> made(step_.storages.size()), ran(step_.operations.size());
    for (std::uint32_t run = 0; run < found_.runs.size(); ++run) {
      const Operation& op = step_.operations[found_.runs[run]];
      for (const std::uint32_t s : op.reads)
        if (!step_.storages[s].constant() && !made[s]) return "reads what nothing made";
      if (ran[found_.runs[run]] && !op.repeatable) return "repeats what cannot be repeated";
      for (const std::uint32_t s : op.makes) made[s] = true;
      ran[found_.runs[run]] = true;
      if (bytes_at(run) > budget_bytes) return "run " + std::to_string(run) + " has too little room";
    }
    return std::find(ran.begin(), ran.end(), false) == ran.end() ? "" : "an operation never runs";
  }

 private:
  struct Trip {
    std::uint32_t storage = 0, after = nothing, needed = nothing;
    std::int64_t gone_ns = 0, back_ns = 0;  // it takes no memory between
  };

  const Step& step_;
  const CarriedRuns& found_;
  std::vector<std::uint32_t> position_;
  std::vector<std::int64_t> start_ns_;
  std::vector<Trip> trips_;

  bool names(std::uint32_t run, std::uint32_t storage, bool reads) const {
    const Operation& op = step_.operations[found_.runs[run]];
    const auto& list = reads ? op.reads : op.makes;
    return std::find(list.begin(), list.end(), storage) != list.end();
  }

  Trip trip(const Carried& c) const {
    Trip t{c.storage};
    for (std::uint32_t run = 0; run < found_.runs.size(); ++run) {
      const bool reads = names(run, c.storage, true), makes = names(run, c.storage, false);
      if (position_[run] < c.over && (reads || makes)) t.after = run;
      if (position_[run] >= c.over && makes && t.needed == nothing) return {c.storage};
      if (position_[run] >= c.over && reads && t.needed == nothing) t.needed = run;
    }
    return t;
  }

  void time_trips(const Link& link) {
    std::vector<Trip*> real;
    for (Trip& t : trips_)
      if (t.after != nothing && t.needed != nothing) real.push_back(&t);
    std::sort(real.begin(), real.end(), [](const Trip* a, const Trip* b) { return a->after < b->after; });
    std::int64_t ns = 0;
    for (Trip* t : real)
      t->gone_ns = ns = std::max(ns, start_ns_[t->after + 1]) + link.out_ns(step_.storages[t->storage].bytes);
    std::sort(real.begin(), real.end(), [](const Trip* a, const Trip* b) { return a->needed > b->needed; });
    ns = start_ns_.back();
    for (Trip* t : real)
      t->back_ns = ns = std::min(ns, start_ns_[t->needed]) - link.in_ns(step_.storages[t->storage].bytes);
  }

  bool is_away(std::uint32_t storage, std::uint32_t run) const {
    return std::any_of(trips_.begin(), trips_.end(), [&](const Trip& t) {
      return t.storage == storage && t.gone_ns <= start_ns_[run] && start_ns_[run + 1] <= t.back_ns;
    });
  }

  // Made before the run, and read behind it or at it before it is made again.
  bool is_held(std::uint32_t storage, std::uint32_t run) const {
    bool made = false;
    for (std::uint32_t before = 0; before < run; ++before) made = made || names(before, storage, false);
    if (!made) return false;
    for (std::uint32_t later = run; later < found_.runs.size(); ++later) {
      if (names(later, storage, true)) return true;
      if (names(later, storage, false)) return false;
    }
    return step_.storages[storage].kept;
  }

  std::uint64_t bytes_at(std::uint32_t run) const {
    const Operation& op = step_.operations[found_.runs[run]];
    std::uint64_t bytes = op.made_bytes + op.workspace_bytes;
    for (std::uint32_t s = 0; s < step_.storages.size(); ++s)
      if ((step_.storages[s].constant() || is_held(s, run)) && !is_away(s, run))
        bytes += step_.storages[s].bytes;
    return bytes;
  }
};

SearchOptions brief(std::uint64_t seed = 0) {
  SearchOptions options;
  options.seed = seed;
  options.effort = 2e-4;
  return options;
}

}  // namespace

TEST_CASE("What is carried leaves as early and comes back as late as the link can", "[beside]") {
  const Step step = one_that_rests();
  // Named by the run that ends at 2; 4 ns out, away at 6; needed at 18, 4 ns in, on its way from 14 on.
  Absence a = absence_of(step, all_once(step), {{0, 5}});
  CHECK(a.after == 0);
  CHECK(a.needed == 9);
  CHECK(a.begin == 3);
  CHECK(a.end == 7);
  a = absence_of(step, all_once(step), {{0, 5}}, {1.25, 1, 0});  // away at 7: the run from 6 on has no room
  CHECK(a.begin == 4);
  a = absence_of(step, all_once(step), {{0, 5}}, {1, 1.25, 0});  // on its way from 13 on, within a run
  CHECK(a.end == 6);
  a = absence_of(step, all_once(step), {{0, 5}}, {1, 1, 2});  // 2 ns more each
  CHECK(a.begin == 4);
  CHECK(a.end == 6);
  a = absence_of(step, all_once(step), {{0, 5}}, {2, 2, 0});  // away at 10, on its way from 10 on
  CHECK(a.begin == a.end);
  a = absence_of(step, all_once(step), {{0, 5}}, {3, 3, 0});  // away at 14, on its way from 6 on
  CHECK(a.begin == a.end);
}

TEST_CASE("A run that reads what is carried has it back, and one that makes it anew has no use for it",
          "[beside]") {
  StepBuilder builder;
  builder.add_operation(2, {});
  const std::uint32_t a = builder.add_result(4);
  builder.add_operation(2, {a});
  const std::uint32_t b = builder.add_result(1);
  for (int i = 0; i < 8; ++i) builder.add_operation(2, {});
  builder.add_operation(2, {b});
  builder.add_operation(2, {a});
  const Step step = builder.finish();
  Runs runs = all_once(step);
  CHECK(absence_of(step, runs, {{a, 6}}).needed == 11);
  runs.insert(runs.begin() + 8, 1);  // b again, from a, at position 8
  Absence found = absence_of(step, runs, {{a, 6}});
  CHECK(found.after == 1);
  CHECK(found.needed == 8);
  CHECK(absence_of(step, runs, {{a, 9}}).after == 8);
  runs.insert(runs.begin() + 8, 0);  // a anew before that
  found = absence_of(step, runs, {{a, 6}});
  CHECK(found.begin == found.end);
}

TEST_CASE("Each direction carries one after the other", "[beside]") {
  StepBuilder builder;
  builder.add_operation(2, {});
  const std::uint32_t a = builder.add_result(4);
  const std::uint32_t b = builder.add_result(4);
  for (int i = 0; i < 14; ++i) builder.add_operation(2, {});
  builder.add_operation(2, {b});
  builder.add_operation(2, {a});
  const Step step = builder.finish();
  const std::vector<Carried> both{{a, 7}, {b, 7}};
  // a is away at 6 and b at 10; a is on its way from 28 on, b from 24 on.
  const Absence first = absence_of(step, all_once(step), both, ns_a_byte, 0);
  const Absence second = absence_of(step, all_once(step), both, ns_a_byte, 1);
  CHECK(first.begin == 3);
  CHECK(second.begin == 5);
  CHECK(first.end == 14);
  CHECK(second.end == 12);
}

TEST_CASE("What is away takes no memory, and constants may be", "[beside]") {
  StepBuilder builder;
  const std::uint32_t weight = builder.add_constant(4);
  builder.add_operation(2, {weight});
  for (int i = 0; i < 4; ++i) {
    builder.add_operation(2, {});
    if (i == 2) builder.set_workspace(5);
  }
  for (int i = 0; i < 4; ++i) builder.add_operation(2, {});
  builder.add_operation(2, {weight});
  const Step step = builder.finish();
  Holding holding(step);
  holding.look(all_once(step));
  CHECK(holding.peak().bytes == 9);
  std::vector<Holding::Rest> rests;
  holding.rests_at(3, all_once(step), &rests);
  CHECK(rests.empty());
  holding.look(all_once(step), {}, ns_a_byte);
  holding.rests_at(3, all_once(step), &rests);
  REQUIRE(rests.size() == 1);
  CHECK(rests[0].storage == weight);
  CHECK(rests[0].last == 0);
  CHECK(rests[0].needed == 9);
  holding.look(all_once(step), {{weight, 4}}, ns_a_byte);
  CHECK(holding.peak().bytes == 5);
  holding.rests_at(3, all_once(step), &rests);
  CHECK(rests.empty());
}

TEST_CASE("A constant rests between two reads alone", "[beside]") {
  StepBuilder builder;
  const std::uint32_t weight = builder.add_constant(4);
  for (std::uint32_t i = 0; i < 10; ++i) {
    if (i == 4 || i == 8) {
      builder.add_operation(2, {weight});
    } else {
      builder.add_operation(2, {});
    }
  }
  const Step step = builder.finish();
  Holding holding(step);
  holding.look(all_once(step), {}, ns_a_byte);
  const auto resting = [&](std::uint32_t run) {
    std::vector<Holding::Rest> rests;
    holding.rests_at(run, all_once(step), &rests);
    return rests.size();
  };
  CHECK(resting(6) == 1);
  CHECK(resting(2) == 0);
  CHECK(resting(8) == 0);
  CHECK(resting(9) == 0);
}

TEST_CASE("Beside a fast link nothing is made again, and beside none what it begins with stays", "[beside]") {
  const Step step = test::unit_chain(24);
  const std::uint64_t budget = (least_bytes_of(step) + peak_bytes_of(step)) / 2;
  const auto alone = search_recomputation(step, budget, brief());
  REQUIRE(alone);
  const Runs runs = runs_of(*alone);
  REQUIRE(cost_ns_of(step, runs) > step.cost_ns);
  const auto fast = search_beside_link(step, budget, {1e-3, 1e-3, 0}, {runs, {}}, brief());
  REQUIRE(fast);
  CHECK(cost_ns_of(step, fast->runs) == step.cost_ns);
  CHECK_FALSE(fast->carried.empty());
  for (const double ns_per_byte : {1e6, 1e18}) {
    const auto slow = search_beside_link(step, budget, {ns_per_byte, ns_per_byte, 0}, {runs, {}}, brief());
    REQUIRE(slow);
    CHECK(slow->carried.empty());
    CHECK(cost_ns_of(step, slow->runs) <= cost_ns_of(step, runs));
  }
  CHECK(Link{1e18, 1e18, 1e18}.out_ns(std::uint64_t{1} << 62) == 100'000'000'000'000);
}

TEST_CASE("Beside a link runs fit, nothing waits, and they cost no more than those without it", "[beside]") {
  std::uint32_t cheaper = 0, carrying = 0, checked = 0;
  std::int64_t again_ns[2] = {0, 0};  // what is computed again, without and with the link
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Step step = test::random_step(seed, static_cast<std::uint32_t>(30 + seed % 40));
    const std::uint64_t least = least_bytes_of(step), peak = peak_bytes_of(step);
    const std::uint64_t budget = least + (peak - least) * (1 + seed % 3) / 4;
    const auto alone = search_recomputation(step, budget, brief(seed));
    if (!alone) continue;
    const double ns_per_byte = static_cast<double>(step.cost_ns) / static_cast<double>(peak);
    const Link link{ns_per_byte * (0.25 + 0.25 * static_cast<double>(seed % 5)), ns_per_byte / 2,
                    static_cast<double>(seed % 7)};
    const CarriedRuns from{runs_of(*alone), {}};
    const auto found = search_beside_link(step, budget, link, from, brief(seed));
    INFO("seed " << seed << " " << found.error);
    REQUIRE(found);
    const Replay replay(step, *found, link);
    REQUIRE_THAT(replay.wrong(budget), Catch::Equals(""));
    REQUIRE(cost_ns_of(step, found->runs) <= cost_ns_of(step, from.runs));
    for (const Carried& c : found->carried) REQUIRE(c.over <= step.storages[c.storage].readers.back());
    again_ns[0] += cost_ns_of(step, from.runs) - step.cost_ns;
    again_ns[1] += cost_ns_of(step, found->runs) - step.cost_ns;
    cheaper += cost_ns_of(step, found->runs) < cost_ns_of(step, from.runs) ? 1 : 0;
    carrying += found->carried.empty() ? 0 : 1;
    ++checked;
    const auto twice = search_beside_link(step, budget, link, from, brief(seed));
    REQUIRE(twice->runs == found->runs);
    REQUIRE(twice->carried == found->carried);
  }
  CHECK(checked > 30);
  CHECK(cheaper > 20);
  CHECK(carrying > 20);
  CHECK(again_ns[1] < again_ns[0] / 5);
}

TEST_CASE("Without runs to begin with the search beside a link begins with everything held", "[beside]") {
  const Step step = test::unit_chain(24);
  const std::uint64_t budget = (least_bytes_of(step) + peak_bytes_of(step)) / 2;
  const Link link{0.2, 0.2, 0};
  for (const CarriedRuns& from : {CarriedRuns{}, CarriedRuns{all_once(step), {}}}) {
    const auto found = search_beside_link(step, budget, link, from, brief());
    REQUIRE(found);
    CHECK_THAT(Replay(step, *found, link).wrong(budget), Catch::Equals(""));
    CHECK_FALSE(search_beside_link(step, least_bytes_of(step) / 2, link, from, brief()));
  }
}

}  // namespace terrace::planner::recompute
