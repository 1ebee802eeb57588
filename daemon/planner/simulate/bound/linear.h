// A linear programme, and a bound on its least value that does not depend on who solved it.
//
// Minimise the columns' cost under limits of rows and columns. Whatever multipliers of the rows one has, the
// Lagrangian with them is a lower bound of the least value (weak duality): it is computed here, from the data
// and with plain sums. So the solver cannot make a bound wrong: bad multipliers, be they of a solver stopped
// early or of one with loose tolerances, only make it lower.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace terrace::planner {

inline constexpr double without_limit = std::numeric_limits<double>::infinity();

class LinearProgramme {
 public:
  std::uint32_t add_row(double least, double most);
  std::uint32_t add_column(double cost, double least, double most);
  void add(std::uint32_t row, std::uint32_t column, double value);  // adds up where it is called again
  // Other limits of a column: a branch of a search for whole numbers.
  void limit(std::uint32_t column, double least, double most) { columns_[column].limits = {least, most}; }

  std::uint32_t rows() const { return static_cast<std::uint32_t>(rows_.size()); }
  std::uint32_t columns() const { return static_cast<std::uint32_t>(columns_.size()); }

  // False: some row cannot keep its limits whatever the columns are, each within its own. True says nothing.
  bool may_have_solution() const;

  // The Lagrangian's least value. A multiplier that its row's limits do not allow counts as 0; minus infinity
  // where a column without limit would gain.
  double lagrangian(std::vector<double> multipliers) const;

  // One multiplier per row and, where asked for, one value per column, as far as the solver got. False where
  // it was stopped, by the limit of its iterations or by `stop`, which it asks at every iteration; or failed,
  // or there is no solution.
  bool solve(std::uint32_t most_iterations, std::vector<double>* multipliers,
             std::vector<double>* values = nullptr, const std::function<bool()>& stop = {}) const;

 private:
  struct Limits {
    double least = 0, most = 0;
  };
  struct Entry {
    std::uint32_t row = 0;
    double value = 0;
  };
  struct Column {
    double cost = 0;
    Limits limits;
    std::vector<Entry> entries;
  };

  std::vector<Limits> rows_;
  std::vector<Column> columns_;
};

}  // namespace terrace::planner
