// Checkmate's linear relaxation and its rounding in two stages.
//
// Jain et al., MLSys 2020: the integer programme of section 4 and the approximation of section 5. Stage t of
// stages.h; all variables between 0 and 1:
//
//     R[t][i]   operation i runs in stage t; 1 for i = t
//     S[t][s]   storage s is kept into stage t
//     F[t][r]   reading r = (operation i reads storage s) frees s in stage t, or, for what i makes and nobody
//               reads, i itself does
//     U[t][i]   bytes in memory when operation i may run in stage t, not above the budget
//
//     minimise   sum of R[t][i] cost[i]
//          R[t][i] <= R[t][maker of s] + S[t][s]        for each s that i reads
//          S[t+1][s] <= S[t][s] + R[t][maker of s]
//          U[t][0] = sum of S[t][s] bytes[s] + R[t][0] bytes made by 0
//          U[t][i+1] = U[t][i] - what the readings of i free + R[t][i+1] bytes made by i+1
//          1 - F[t][r] <= h,  k (1 - F[t][r]) >= h      where h counts what speaks against freeing:
//          h = 1 - R[t][i] + S[t+1][s] + sum of R[t][j] over later readers j of s,  k its greatest value
//
// The relaxation is solved for nine tenths of the budget, as Checkmate does, because rounding needs room.
// Then what is kept is rounded at nine thresholds, what runs follows (stages.h), and the cheapest that fits
// is taken. Where none fits Checkmate has no answer; here the relaxation is solved again for a tenth less,
// down to a half. Clp solves; nothing depends on its answer being right, because schedules are checked.
#include <algorithm>

#include "daemon/planner/recompute/static/policies.h"
#include "daemon/planner/recompute/static/stages.h"
#include "daemon/planner/simulate/bound/linear.h"

namespace terrace::planner::recompute {
namespace {

constexpr std::uint32_t most_operations = 200;
constexpr std::uint32_t most_iterations = 400'000;

using Column = std::uint32_t;
constexpr Column no_column = nothing;

class Relaxation {
 public:
  Relaxation(const Step& step, double budget_bytes);
  bool solve(const Stop& stop);
  // S of the relaxation.
  double kept(std::uint32_t stage, std::uint32_t storage) const;

 private:
  struct Reading {
    std::uint32_t operation = 0, storage = 0;
  };
  std::uint32_t count() const { return static_cast<std::uint32_t>(step_.operations.size()); }
  std::uint32_t maker(std::uint32_t s) const { return step_.storages[s].maker; }
  bool exists_in(std::uint32_t stage, std::uint32_t s) const {
    return !step_.storages[s].constant() && maker(s) < stage;
  }
  double slots(std::uint64_t bytes) const { return static_cast<double>(bytes) / unit_; }

  void add_variables();
  void add_stage(std::uint32_t stage);
  void add_dependencies(std::uint32_t stage);
  void add_memory(std::uint32_t stage);
  std::vector<Reading> last_uses(std::uint32_t operation) const;
  Column add_freeing(std::uint32_t stage, const Reading& reading);
  void add_term(std::uint32_t row, Column column, double value);

  const Step& step_;
  double unit_;  // bytes: one for the budget, so that all coefficients are of one order
  LinearProgramme programme_;
  std::vector<std::vector<Column>> runs_, kept_;  // [stage]
  std::vector<double> values_;
};

Relaxation::Relaxation(const Step& step, double budget_bytes)
    : step_(step),
      unit_(budget_bytes),
      runs_(step.operations.size(), std::vector<Column>(step.operations.size(), no_column)),
      kept_(step.operations.size() + 1, std::vector<Column>(step.storages.size(), no_column)) {
  add_variables();
  for (std::uint32_t stage = 0; stage < count(); ++stage) add_stage(stage);
}

void Relaxation::add_variables() {
  for (std::uint32_t t = 0; t < count(); ++t) {
    for (std::uint32_t i = 0; i <= t; ++i)
      runs_[t][i] =
          programme_.add_column(static_cast<double>(step_.operations[i].cost_ns), i == t ? 1 : 0, 1);
  }
  for (std::uint32_t t = 1; t <= count(); ++t) {
    for (std::uint32_t s = 0; s < step_.storages.size(); ++s) {
      if (!exists_in(t, s)) continue;
      const bool end = t == count();
      const double at_end = step_.storages[s].kept ? 1 : 0;
      kept_[t][s] = programme_.add_column(0, end ? at_end : 0, end ? at_end : 1);
    }
  }
}

void Relaxation::add_term(std::uint32_t row, Column column, double value) {
  if (column != no_column) programme_.add(row, column, value);
}

void Relaxation::add_dependencies(std::uint32_t stage) {
  for (std::uint32_t i = 0; i <= stage; ++i) {
    for (const std::uint32_t s : step_.operations[i].reads) {
      if (step_.storages[s].constant()) continue;
      const std::uint32_t row = programme_.add_row(0, without_limit);
      add_term(row, runs_[stage][maker(s)], 1);
      add_term(row, kept_[stage][s], 1);
      add_term(row, runs_[stage][i], -1);
    }
  }
  for (std::uint32_t s = 0; s < step_.storages.size(); ++s) {
    if (!exists_in(stage + 1, s)) continue;
    const std::uint32_t row = programme_.add_row(0, without_limit);
    add_term(row, kept_[stage][s], 1);
    add_term(row, runs_[stage][maker(s)], 1);
    add_term(row, kept_[stage + 1][s], -1);
  }
}

// What can go when the operation has run: what it reads, and what it makes.
std::vector<Relaxation::Reading> Relaxation::last_uses(std::uint32_t operation) const {
  std::vector<Reading> all;
  for (const std::uint32_t s : step_.operations[operation].reads)
    if (!step_.storages[s].constant()) all.push_back({operation, s});
  for (const std::uint32_t s : step_.operations[operation].makes) all.push_back({operation, s});
  return all;
}

Column Relaxation::add_freeing(std::uint32_t stage, const Reading& reading) {
  const Column frees = programme_.add_column(0, 0, 1);
  // 1 <= F + h and k F + h <= k, with the 1 of h on the right.
  std::vector<std::pair<Column, double>> h{{runs_[stage][reading.operation], -1.0},
                                           {kept_[stage + 1][reading.storage], 1.0}};
  for (const std::uint32_t later : step_.storages[reading.storage].readers)
    if (later > reading.operation && later <= stage) h.emplace_back(runs_[stage][later], 1.0);
  const auto most = static_cast<double>(h.size());
  const std::uint32_t at_least = programme_.add_row(0, without_limit);
  const std::uint32_t at_most = programme_.add_row(-without_limit, most - 1);
  add_term(at_least, frees, 1);
  add_term(at_most, frees, most);
  for (const auto& [column, value] : h) {
    add_term(at_least, column, value);
    add_term(at_most, column, value);
  }
  return frees;
}

void Relaxation::add_memory(std::uint32_t stage) {
  Column before = no_column;
  for (std::uint32_t i = 0; i <= stage; ++i) {
    const Operation& op = step_.operations[i];
    const double most = 1 - slots(op.workspace_bytes) - slots(step_.constant_bytes);
    const Column bytes = programme_.add_column(0, 0, std::max(0.0, most));
    const std::uint32_t row = programme_.add_row(0, 0);
    add_term(row, bytes, -1);
    add_term(row, before, 1);
    add_term(row, runs_[stage][i], slots(op.made_bytes));
    if (i == 0) {
      for (std::uint32_t s = 0; s < step_.storages.size(); ++s)
        if (exists_in(stage, s)) add_term(row, kept_[stage][s], slots(step_.storages[s].bytes));
    } else {
      for (const Reading& r : last_uses(i - 1))
        add_term(row, add_freeing(stage, r), -slots(step_.storages[r.storage].bytes));
    }
    before = bytes;
  }
}

void Relaxation::add_stage(std::uint32_t stage) {
  add_dependencies(stage);
  add_memory(stage);
}

bool Relaxation::solve(const Stop& stop) {
  std::vector<double> multipliers;
  return programme_.solve(most_iterations, &multipliers, &values_, stop);
}

double Relaxation::kept(std::uint32_t stage, std::uint32_t storage) const {
  const Column column = kept_[stage][storage];
  return column == no_column ? 0 : values_[column];
}

Schedule rounded(const Step& step, const Relaxation& relaxation, double threshold) {
  Stages stages(step);
  for (std::uint32_t t = 1; t < step.operations.size(); ++t)
    for (std::uint32_t s = 0; s < step.storages.size(); ++s)
      if (relaxation.kept(t, s) >= threshold) stages.keep(t, s);
  return stages.schedule();
}

std::optional<Schedule> cheapest_rounding(const Step& step, const Relaxation& relaxation,
                                          std::uint64_t budget_bytes) {
  std::int64_t least_ns = 0;
  std::optional<Schedule> best;
  for (int tenths = 1; tenths <= 9; ++tenths) {
    Schedule schedule = rounded(step, relaxation, tenths / 10.0);
    const Price price = check_schedule(step, schedule, budget_bytes);
    if (!price.wrong.empty() || (best && price.cost_ns >= least_ns)) continue;
    least_ns = price.cost_ns;
    best = std::move(schedule);
  }
  return best;
}

}  // namespace

Result<Schedule> checkmate_rounded(const Step& step, std::uint64_t budget_bytes, const Stop& stop) {
  if (step.operations.size() > most_operations)
    return refused<Schedule>("more than 200 operations: the relaxation would be too large");
  for (const double share : {0.9, 0.8, 0.7, 0.6, 0.5}) {
    Relaxation relaxation(step, share * static_cast<double>(budget_bytes));
    if (!relaxation.solve(stop))
      return refused<Schedule>("a relaxation has no solution, or was stopped before it was solved");
    if (auto best = cheapest_rounding(step, relaxation, budget_bytes)) return ok(std::move(*best));
  }
  return refused<Schedule>("no rounding fits into the budget");
}

}  // namespace terrace::planner::recompute
