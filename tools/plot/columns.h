// A quantity over time, reduced to one value for each column of pixels: the largest that it has there, so
// that no peak is lost however many samples fall on one column.
#pragma once

#include <vector>

#include "tools/plot/axis.h"

namespace terrace::plot {

class Columns {
 public:
  Columns(const Field& field, int per_pixel = 2);
  // The quantity has `value` from `begin` to `end`.
  void hold(double begin, double end, double value);
  // Adds the share of each column that [begin, end) takes.
  void cover(double begin, double end);

  std::size_t size() const { return values_.size(); }
  double value(std::size_t column) const { return values_[column]; }
  double left(std::size_t column) const { return field_.box.x + static_cast<double>(column) * step_; }
  double width() const { return step_; }

 private:
  double position(double x) const;  // in columns
  Field field_;
  double step_;
  std::vector<double> values_;
};

// The outline of the area under the columns as a staircase on the canvas, from bottom left to bottom right.
std::vector<Point> staircase(const Field& field, const Columns& columns);

}  // namespace terrace::plot
