// The part of --plot for two memories: a panel for each set of steps, a line for each policy, from a tenth to
// a half of the peak fast. A line's name stands beside its begin, where the policies differ most.
//
// What is drawn is what a policy adds to a step with everything fast, in percent from 0. `first_touch` and
// everything slow would need a scale on which the others cannot be told apart, so a line of text gives them;
// `sentinel_interval`, whose means are within half a percent of `sentinel`'s, is in the table alone.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/bench/policies/parts.h"
#include "tools/plot/axis.h"
#include "tools/plot/canvas.h"

namespace terrace::bench {
namespace {

using plot::Anchor;
using plot::Canvas;
using plot::Color;
using plot::Field;
using plot::Point;

constexpr int first_percent = 10, last_percent = 50, percent_step = 10;
constexpr double title_height = 56, panel_title = 44, field_height = 250, panel_foot = 52;
constexpr double panel_margin = 24, label_room = 186, tick_room = 56, label_line = 15;
constexpr double least_scale = 1;  // percent: what adds less is a flat line
constexpr double mark_side = 5;

struct Series {
  const char* policy;
  const char* label;
  Color color;
  double line_width;
  bool dashed;
};

constexpr Series drawn[] = {{"autotm_static", "AutoTM, static", {0.80, 0.47, 0.13}, 1.8, false},
                            {"autotm_moves", "AutoTM with moves", {0.55, 0.34, 0.64}, 1.8, false},
                            {"sentinel", "Sentinel", {0.16, 0.55, 0.44}, 1.8, false},
                            {"search", "search (ours)", {0.13, 0.35, 0.67}, 3, false},
                            {"bound", "bound", {0.45, 0.45, 0.45}, 1.4, true}};

const Json* row_for(const Json& section, const std::string& set, const std::string& policy) {
  for (const Json& row : section["rows"])
    if (row["steps"] == set && row["policy"] == policy) return &row;
  return nullptr;
}

// Percent of the peak and what is added, in percent; shares that were not measured are left out.
std::vector<Point> added_by(const Json& row) {
  std::vector<Point> points;
  for (int percent = first_percent; percent <= last_percent; percent += percent_step) {
    const auto at = row.find(fmt::format("at_{}", percent));
    if (at == row.end()) continue;
    points.push_back({static_cast<double>(percent), std::max(0.0, (at->get<double>() - 1) * 100)});
  }
  return points;
}

std::vector<std::string> sets_of(const Json& section) {
  std::vector<std::string> names;
  for (const Json& row : section["rows"])
    if (names.empty() || names.back() != row["steps"]) names.push_back(row["steps"]);
  return names;
}

// "1.50 to 1.38", or one figure where one share was measured.
std::string from_to(const Json& row) {
  const std::vector<Point> points = added_by(row);
  if (points.empty()) return "not measured";
  const std::string from = fmt::format("{:.3f}", 1 + points.front().y / 100);
  const std::string to = fmt::format("{:.3f}", 1 + points.back().y / 100);
  return from == to ? from : from + " to " + to;
}

class MemoriesPanel {
 public:
  MemoriesPanel(Canvas& canvas, Point corner, double panel_width, const Json& section, std::string set)
      : canvas_(canvas), corner_(corner), section_(section), set_(std::move(set)) {
    field_.box = {corner.x + label_room, corner.y + panel_title, panel_width - label_room - tick_room,
                  field_height};
    field_.x_end = last_percent - first_percent;
    field_.y_end = least_scale;
    for (const Series& s : drawn)
      for (const Point& p : points_of(s)) field_.y_end = std::max(field_.y_end, p.y * 1.05);
  }

  void draw() {
    draw_title();
    draw_scales();
    struct Label {
      double y;
      const Series* series;
      double added;
    };
    std::vector<Label> labels;
    for (const Series& s : drawn) {
      const std::vector<Point> points = points_of(s);
      if (points.empty()) continue;
      draw_line(points, s);
      labels.push_back({field_.y(points.front().y), &s, points.front().y});
    }
    std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y > b.y; });
    double lowest = field_.box.bottom() + label_line / 2;
    for (const Label& label : labels) {
      lowest = std::min(label.y, lowest - label_line);
      canvas_.text({field_.box.x - 8, lowest + 4},
                   fmt::format("{} +{:.2f}%", label.series->label, label.added),
                   {.size = 12,
                    .anchor = Anchor::right,
                    .bold = label.series->line_width > 2,
                    .color = label.series->color});
    }
  }

 private:
  Canvas& canvas_;
  Point corner_;
  const Json& section_;
  std::string set_;
  Field field_;

  std::vector<Point> points_of(const Series& s) const {
    const Json* row = row_for(section_, set_, s.policy);
    return row == nullptr ? std::vector<Point>{} : added_by(*row);
  }

  void draw_title() {
    const Json* ours = row_for(section_, set_, "search");
    const Json* touch = row_for(section_, set_, "first_touch");
    const Json* slow = row_for(section_, set_, "all slow");
    if (ours == nullptr || touch == nullptr || slow == nullptr) return;
    const int steps = ours->value("ran", 0);
    canvas_.text({corner_.x, corner_.y + 12},
                 fmt::format("{}, {} step{}", set_, steps, steps == 1 ? "" : "s"),
                 {.size = 13, .bold = true});
    canvas_.text(
        {corner_.x, corner_.y + 29},
        fmt::format("not drawn: everything slow {}, first touch {}", from_to(*slow), from_to(*touch)),
        {.size = 11, .color = {0.4, 0.4, 0.4}});
  }

  void draw_scales() {
    constexpr Color grid_color{0.88, 0.88, 0.88};
    for (const plot::Tick& tick : plot::count_ticks(field_.y_end * 100, 5)) {  // of hundredths of a percent
      const double y = field_.y(tick.value / 100);
      canvas_.line({field_.box.x, y}, {field_.box.right(), y}, {.color = grid_color});
      canvas_.text({field_.box.right() + 6, y + 4}, fmt::format("+{:g}%", tick.value / 100), {.size = 11});
    }
    for (int percent = first_percent; percent <= last_percent; percent += percent_step)
      canvas_.text({field_.x(percent - first_percent), field_.box.bottom() + 17}, fmt::format("{}%", percent),
                   {.size = 11, .anchor = Anchor::middle});
    canvas_.text({field_.box.x + field_.box.width / 2, field_.box.bottom() + 34},
                 "share of the step's peak that is fast", {.size = 12, .anchor = Anchor::middle});
  }

  void draw_line(std::vector<Point> points, const Series& s) {
    for (Point& p : points) p = {field_.x(p.x - first_percent), field_.y(p.y)};
    canvas_.path(points, {.color = s.color, .width = s.line_width, .dashed = s.dashed});
    for (const Point& p : points)
      canvas_.fill({p.x - mark_side / 2, p.y - mark_side / 2, mark_side, mark_side}, s.color);
  }
};

// What the first set's first share says: the least that a published policy adds, and what ours does.
std::string result_of(const Json& section) {
  const std::vector<std::string> names = sets_of(section);
  const Json* ours = names.empty() ? nullptr : row_for(section, names.front(), "search");
  if (ours == nullptr || added_by(*ours).empty()) return section["title"];
  const Point at = added_by(*ours).front();
  double least = -1;
  for (const Json& row : section["rows"]) {
    const std::string policy = row["policy"];
    if (row["steps"] != names.front() || policy == "search" || policy == "bound") continue;
    const std::vector<Point> points = added_by(row);
    if (points.empty()) continue;
    const double added = points.front().y;
    if (least < 0 || added < least) least = added;
  }
  return fmt::format(
      "Two memories, {:g}% of the peak fast: search adds {:.1f}% to {}'s steps, the best published policy "
      "{:.1f}%",
      at.x, at.y, names.front(), least);
}

}  // namespace

double memories_plot_height() { return title_height + panel_title + field_height + panel_foot; }

void draw_memories(plot::Canvas& canvas, double top, double width, const Json& section) {
  canvas.text({panel_margin, top + 28}, result_of(section), {.size = 16, .bold = true});
  canvas.text({panel_margin, top + 46},
              "time added to a step with everything fast, geometric mean; each panel has its own scale",
              {.size = 12, .color = {0.3, 0.3, 0.3}});
  const std::vector<std::string> names = sets_of(section);
  const double panel_width =
      (width - 2 * panel_margin) / static_cast<double>(std::max<std::size_t>(names.size(), 1));
  for (std::size_t i = 0; i < names.size(); ++i)
    MemoriesPanel(canvas, {panel_margin + panel_width * static_cast<double>(i), top + title_height},
                  panel_width, section, names[i])
        .draw();
}

}  // namespace terrace::bench
