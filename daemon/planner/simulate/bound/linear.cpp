#include "daemon/planner/simulate/bound/linear.h"

#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <ClpSolve.hpp>
#include <algorithm>
#include <cmath>

namespace terrace::planner {
namespace {

// Asked at every event of the solver, also of those that solve its simplified programme.
class Stopper : public ClpEventHandler {
 public:
  explicit Stopper(const std::function<bool()>& stop) : stop_(stop) {}
  int event(Event /*which*/) override {
    constexpr int stops = 0, goes_on = -1;
    return stop_ && stop_() ? stops : goes_on;
  }
  [[nodiscard]] ClpEventHandler* clone() const override { return new Stopper(*this); }

 private:
  const std::function<bool()>& stop_;
};

double least_of(double slope, double least, double most) {
  return slope == 0 ? 0 : slope * (slope > 0 ? least : most);
}

}  // namespace

std::uint32_t LinearProgramme::add_row(double least, double most) {
  rows_.push_back({least, most});
  return rows() - 1;
}

std::uint32_t LinearProgramme::add_column(double cost, double least, double most) {
  columns_.push_back({cost, {least, most}, {}});
  return columns() - 1;
}

void LinearProgramme::add(std::uint32_t row, std::uint32_t column, double value) {
  std::vector<Entry>& entries = columns_[column].entries;
  const auto same_row = [row](const Entry& e) { return e.row == row; };
  if (const auto it = std::find_if(entries.begin(), entries.end(), same_row); it != entries.end()) {
    it->value += value;
  } else {
    entries.push_back({row, value});
  }
}

bool LinearProgramme::may_have_solution() const {
  std::vector<Limits> sums(rows_.size());
  for (const Column& column : columns_) {
    for (const Entry& e : column.entries) {
      sums[e.row].least += least_of(e.value, column.limits.least, column.limits.most);
      sums[e.row].most -= least_of(-e.value, column.limits.least, column.limits.most);
    }
  }
  constexpr double tolerance = 1e-9;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const double slack = tolerance * (1 + std::abs(sums[row].least) + std::abs(sums[row].most));
    if (sums[row].least > rows_[row].most + slack || sums[row].most < rows_[row].least - slack) return false;
  }
  return true;
}

double LinearProgramme::lagrangian(std::vector<double> multipliers) const {
  double sum = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    double& y = multipliers[row];
    const double limit = y > 0 ? rows_[row].least : rows_[row].most;
    if (!std::isfinite(y) || std::isinf(limit)) y = 0;
    if (y != 0) sum += y * limit;
  }
  for (const Column& column : columns_) {
    double slope = column.cost;
    for (const Entry& e : column.entries) slope -= multipliers[e.row] * e.value;
    sum += least_of(slope, column.limits.least, column.limits.most);
  }
  return sum;
}

bool LinearProgramme::solve(std::uint32_t most_iterations, std::vector<double>* multipliers,
                            std::vector<double>* values, const std::function<bool()>& stop) const {
  std::vector<CoinBigIndex> begins{0};
  std::vector<int> places;
  std::vector<double> entries, least, most, cost, row_least, row_most;
  for (const Column& column : columns_) {
    for (const Entry& e : column.entries) {
      places.push_back(static_cast<int>(e.row));
      entries.push_back(e.value);
    }
    begins.push_back(static_cast<CoinBigIndex>(places.size()));
    cost.push_back(column.cost);
    least.push_back(column.limits.least);
    most.push_back(column.limits.most);
  }
  for (const Limits& row : rows_) {
    row_least.push_back(row.least);
    row_most.push_back(row.most);
  }
  ClpSimplex model;
  model.setLogLevel(0);
  model.loadProblem(static_cast<int>(columns()), static_cast<int>(rows()), begins.data(), places.data(),
                    entries.data(), least.data(), most.data(), cost.data(), row_least.data(),
                    row_most.data());
  model.setMaximumIterations(static_cast<int>(most_iterations));
  const Stopper stopper(stop);
  model.passInEventHandler(&stopper);
  ClpSolve options;
  options.setSolveType(ClpSolve::automatic);
  model.initialSolve(options);
  multipliers->assign(model.dualRowSolution(), model.dualRowSolution() + rows());
  if (values != nullptr)
    values->assign(model.primalColumnSolution(), model.primalColumnSolution() + columns());
  return model.status() == 0;
}

}  // namespace terrace::planner
