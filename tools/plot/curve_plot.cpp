#include "tools/plot/curve_plot.h"

#include <algorithm>

#include "tools/plot/axis.h"
#include "tools/plot/canvas.h"

namespace terrace::plot {

namespace {

constexpr int curve_width = 900, curve_height = 520;
constexpr Color curve_color{0.27, 0.47, 0.67}, compute_color{0.8, 0.1, 0.1}, measured_color{0.1, 0.1, 0.1};
constexpr double headroom = 1.08;  // above the largest value, and right of it
constexpr double dot = 7;
constexpr int wanted_ticks = 8;

void draw_curve(Canvas& canvas, const CurvePicture& picture) {
  double slowest_us = picture.compute_us;
  for (const CurvePoint& p : picture.points) slowest_us = std::max(slowest_us, p.step_us);
  auto largest = static_cast<double>(picture.points.back().budget_bytes);
  if (picture.measured) {
    slowest_us = std::max(slowest_us, picture.measured->step_us);
    largest = std::max(largest, static_cast<double>(picture.measured->budget_bytes));
  }
  const Field field{
      {90, 70, curve_width - 130, curve_height - 140}, headroom * largest, headroom * slowest_us};
  canvas.text({90, 28}, picture.title, {.size = 15, .bold = true});
  std::vector<LegendEntry> legend{{"step", curve_color, true},
                                  {"computing alone", compute_color, true, true}};
  if (picture.measured) legend.push_back({"measured", measured_color});
  draw_legend(canvas, {90, 54}, legend);
  draw_axes(canvas, field, byte_ticks(field.x_end, wanted_ticks), time_ticks(field.y_end, wanted_ticks),
            "memory of the first tier", "time of a step");
  const double bottom_us = field.y(picture.compute_us);
  canvas.line({field.box.x, bottom_us}, {field.box.right(), bottom_us},
              {.color = compute_color, .width = 1.5, .dashed = true});
  std::vector<Point> line;
  for (const CurvePoint& p : picture.points)
    line.push_back({field.x(static_cast<double>(p.budget_bytes)), field.y(p.step_us)});
  canvas.path(line, {.color = curve_color, .width = 2});
  const auto mark = [&](const Point& at, const Color& color) {
    canvas.fill({at.x - dot / 2, at.y - dot / 2, dot, dot}, color);
  };
  for (const Point& at : line) mark(at, curve_color);
  if (!picture.measured) return;
  const auto budget = static_cast<double>(picture.measured->budget_bytes);
  mark({field.x(budget), field.y(picture.measured->step_us)}, measured_color);
}

}  // namespace

Result<std::vector<std::string>> plot_curve(const std::string& prefix, const CurvePicture& picture) {
  return write_picture(prefix, curve_width, curve_height,
                       [&](Canvas& canvas) { draw_curve(canvas, picture); });
}

}  // namespace terrace::plot
