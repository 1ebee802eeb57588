// Axes: where the ticks are and what stands beside them. Bytes in steps of powers of two with IEC units,
// counts and times in steps of 1, 2, 5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/plot/canvas.h"

namespace terrace::plot {

struct Tick {
  double value = 0;
  std::string label;
};

// About `wanted` ticks from 0 to `largest`.
std::vector<Tick> byte_ticks(double largest, int wanted);
std::vector<Tick> count_ticks(double largest, int wanted);  // "2,000"
std::vector<Tick> time_ticks(double largest_us, int wanted);

// 1610612736 -> "1.5 GiB", three digits.
std::string short_bytes(double bytes);

// In the unit that time_ticks(largest_us) has: 2524 of 445300 is "2.52 ms".
std::string short_time(double us, double largest_us);

// What is drawn into: a box on the canvas for x from 0 to `x_end` and y from 0 (bottom) to `y_end`.
struct Field {
  Box box;
  double x_end = 1, y_end = 1;

  double x(double value) const { return box.x + value / x_end * box.width; }
  double y(double value) const { return box.bottom() - value / y_end * box.height; }
};

// Grid lines, tick labels, axis titles, frame. An empty title leaves that axis without labels.
void draw_axes(Canvas& canvas, const Field& field, const std::vector<Tick>& x_ticks,
               const std::vector<Tick>& y_ticks, const std::string& x_title, const std::string& y_title);

struct LegendEntry {
  std::string label;
  Color color;
  bool line = false, dashed = false;
};

// One line from `at` (baseline) to the right; the x where it ends.
double draw_legend(Canvas& canvas, Point at, const std::vector<LegendEntry>& entries);

}  // namespace terrace::plot
