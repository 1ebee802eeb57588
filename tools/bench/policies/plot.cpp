// All groups as panels: a policy is a bar that ends at its mean slowdown, with a line to the worst case and
// marks at the bounds of the same cases. The scale is logarithmic and begins at 1, computing alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/bench/policies/parts.h"
#include "tools/plot/axis.h"
#include "tools/plot/canvas.h"

namespace terrace::bench {
namespace {

using plot::Anchor;
using plot::Box;
using plot::Canvas;
using plot::Color;

constexpr int width = 1400, columns = 2;
constexpr double margin = 24, title = 40, line = 22, names = 150, figures = 110, foot = 30, head = 56;
constexpr double most_shown = 8;  // a bar that is longer is cut, and its figure tells
constexpr Color bar_color{0.27, 0.47, 0.67}, worst_color{0.56, 0.68, 0.80}, moving_color{0.8, 0.1, 0.1},
    recomputing_color{0.1, 0.5, 0.2};
constexpr double ticks[] = {1, 1.5, 2, 3, 4, 6, 8};

double height_of(const Json& section) {
  return title + line * static_cast<double>(section["rows"].size()) + foot;
}

class Panel {
 public:
  Panel(Canvas& canvas, double left, double top, double panel_width, const Json& section)
      : canvas_(canvas),
        left_(left + names),
        width_(panel_width - names - figures),
        top_(top + title),
        section_(section) {}

  void draw() {
    canvas_.text({left_ - names, top_ - 14}, section_["title"], {.size = 13, .bold = true});
    const double bottom = top_ + line * static_cast<double>(section_["rows"].size());
    for (const double tick : ticks) {
      canvas_.line({x(tick), top_}, {x(tick), bottom}, {.color = {0.85, 0.85, 0.85}});
      canvas_.text({x(tick), bottom + 15}, fmt::format("{:g}", tick), {.size = 11, .anchor = Anchor::middle});
    }
    double y = top_;
    for (const Json& row : section_["rows"]) {
      draw_row(row, y);
      y += line;
    }
  }

 private:
  Canvas& canvas_;
  double left_, width_, top_;
  const Json& section_;

  double x(double slowdown) const {
    return left_ + width_ * std::log(std::min(slowdown, most_shown)) / std::log(most_shown);
  }

  void draw_row(const Json& row, double y) {
    const double middle = y + line / 2;
    canvas_.text({left_ - 8, middle + 4}, row["policy"], {.size = 12, .anchor = Anchor::right});
    if (!row.contains("mean")) {
      canvas_.text({left_ + 4, middle + 4}, "does not run", {.size = 11, .color = {0.5, 0.5, 0.5}});
      return;
    }
    const double mean = row["mean"], worst = row["worst"];
    canvas_.line({left_, middle}, {x(worst), middle}, {.color = worst_color, .width = 3});
    canvas_.fill({left_, y + 5, x(mean) - left_, line - 10}, bar_color);
    draw_bound(row, "moving_bound", y, moving_color);
    draw_bound(row, "recomputing_bound", y, recomputing_color);
    canvas_.text({left_ + width_ + 6, middle + 4}, figure(row), {.size = 11});
  }

  // A mean over fewer cases cannot be set beside the others.
  static std::string figure(const Json& row) {
    const std::string ran = row["ran"];
    const std::string all = ran.substr(ran.rfind(' ') + 1);
    const std::string mean = fmt::format("{:.3f}", row["mean"].get<double>());
    return ran == all + " of " + all ? mean : mean + " (" + ran + ")";
  }

  void draw_bound(const Json& row, const char* key, double y, const Color& color) {
    if (!row.contains(key)) return;
    const double at = x(row[key]);
    canvas_.line({at, y + 2}, {at, y + line - 2}, {.color = color, .width = 2});
  }
};

}  // namespace

std::string plot_groups(const std::string& prefix, const std::vector<Json>& sections, const Json& memories) {
  std::vector<const Json*> shown;
  for (const Json& section : sections)
    if (!section.contains("skipped")) shown.push_back(&section);
  const bool two_memories = !memories.is_null() && !memories["rows"].empty();
  if (shown.empty() && !two_memories) return "nothing was measured that could be drawn";
  double height = shown.empty() ? 0 : head;
  for (std::size_t i = 0; i < shown.size(); i += columns)
    height += std::max(height_of(*shown[i]), i + 1 < shown.size() ? height_of(*shown[i + 1]) : 0);
  const double bars = height;
  if (two_memories) height += memories_plot_height();
  const auto draw = [&](Canvas& canvas) {
    if (two_memories) draw_memories(canvas, bars, width, memories);
    if (shown.empty()) return;
    plot::draw_legend(canvas, {margin, 34},
                      {{"geometric mean of the slowdown", bar_color},
                       {"worst case", worst_color, true},
                       {"least of any plan that recomputes nothing", moving_color, true},
                       {"least of any plan", recomputing_color, true}});
    double top = head;
    const double panel_width = (width - 2 * margin) / columns;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const std::size_t column = i % columns;
      Panel(canvas, margin + panel_width * static_cast<double>(column), top, panel_width, *shown[i]).draw();
      if (column == 1) top += std::max(height_of(*shown[i - 1]), height_of(*shown[i]));
    }
  };
  return plot::write_picture(prefix, width, static_cast<int>(std::ceil(height)), draw).error;
}

}  // namespace terrace::bench
