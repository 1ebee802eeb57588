#include "daemon/planner/simulate/bound/linear.h"

#include <Clp_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace terrace::planner {
namespace {

struct DeleteModel {
  void operator()(Clp_Simplex* model) const { Clp_deleteModel(model); }
};
struct DeleteOptions {
  void operator()(Clp_Solve* options) const { ClpSolve_delete(options); }
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
                            std::vector<double>* values) const {
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
  const std::unique_ptr<Clp_Simplex, DeleteModel> model(Clp_newModel());
  Clp_setLogLevel(model.get(), 0);
  Clp_loadProblem(model.get(), static_cast<int>(columns()), static_cast<int>(rows()), begins.data(),
                  places.data(), entries.data(), least.data(), most.data(), cost.data(), row_least.data(),
                  row_most.data());
  Clp_setMaximumIterations(model.get(), static_cast<int>(most_iterations));
  const std::unique_ptr<Clp_Solve, DeleteOptions> options(ClpSolve_new());
  constexpr int as_it_sees_fit = 5;
  ClpSolve_setSolveType(options.get(), as_it_sees_fit, -1);
  Clp_initialSolveWithOptions(model.get(), options.get());
  const double* found = Clp_dualRowSolution(model.get());
  multipliers->assign(found, found + rows());
  if (values != nullptr) {
    const double* primal = Clp_primalColumnSolution(model.get());
    values->assign(primal, primal + columns());
  }
  return Clp_status(model.get()) == 0;
}

}  // namespace terrace::planner
