#include "tools/plot/columns.h"

#include <algorithm>
#include <cmath>

namespace terrace::plot {

Columns::Columns(const Field& field, int per_pixel)
    : field_(field),
      step_(1.0 / per_pixel),
      values_(static_cast<std::size_t>(std::max(1.0, field.box.width * per_pixel))) {}

double Columns::position(double x) const {
  const double at = x / field_.x_end * static_cast<double>(values_.size());
  return std::clamp(at, 0.0, static_cast<double>(values_.size()));
}

void Columns::hold(double begin, double end, double value) {
  const auto first = std::min(static_cast<std::size_t>(position(begin)), values_.size() - 1);
  const auto last = static_cast<std::size_t>(std::ceil(position(end)));
  for (std::size_t i = first; i < std::max(last, first + 1); ++i) values_[i] = std::max(values_[i], value);
}

void Columns::cover(double begin, double end) {
  const double from = position(begin), to = position(end);
  for (auto i = static_cast<std::size_t>(from); i < values_.size() && static_cast<double>(i) < to; ++i)
    values_[i] += std::min(to, static_cast<double>(i) + 1) - std::max(from, static_cast<double>(i));
}

std::vector<Point> staircase(const Field& field, const Columns& columns) {
  std::vector<Point> points{{field.box.x, field.box.bottom()}};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double y = field.y(columns.value(i));
    if (points.back().y != y) {
      points.push_back({columns.left(i), points.back().y});
      points.push_back({columns.left(i), y});
    }
  }
  points.push_back({field.box.right(), points.back().y});
  points.push_back({field.box.right(), field.box.bottom()});
  return points;
}

}  // namespace terrace::plot
