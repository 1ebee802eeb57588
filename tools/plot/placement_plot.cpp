#include "tools/plot/placement_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "daemon/planner/trace_limits.h"
#include "tools/plot/axis.h"
#include "tools/plot/canvas.h"
#include "tools/plot/density.h"
#include "tools/plot/palette.h"

namespace terrace::plot {

using planner::Buffer;
using planner::Instance;
using planner::Placement;
using wire::TensorKind;

namespace {

constexpr int picture_width = 1400, picture_height = 860;
constexpr Box plot_box{108, 66, 1260, 706};
constexpr int density_scale = 2;  // pixels of the density per pixel of the PNG: the SVG may be enlarged
constexpr double separable = 4;   // pixels; wider and higher rectangles get an edge
constexpr double size_range =
    1 << 14;  // the scale of sizes ends this far below the largest: less is not seen

TensorKind kind_of(const Instance& instance, const Buffer& buffer) {
  return buffer.tensor == planner::no_tensor ? TensorKind::workspace
                                             : instance.trace->tensors[buffer.tensor].kind;
}

std::set<TensorKind> kinds_of(const Instance& instance) {
  std::set<TensorKind> kinds;
  if (instance.trace != nullptr)
    for (const Buffer& b : instance.buffers)
      if (b.bytes > 0) kinds.insert(kind_of(instance, b));
  return kinds;
}

// By kind where that tells buffers apart, by the logarithm of the size otherwise.
class Painter {
 public:
  explicit Painter(const Instance& instance) : instance_(instance), kinds_(kinds_of(instance)) {
    auto smallest = ~std::uint64_t{0};
    for (const Buffer& b : instance.buffers) {
      if (b.bytes == 0) continue;
      smallest = std::min(smallest, b.bytes);
      largest_ = std::max(largest_, static_cast<double>(b.bytes));
    }
    cut_ = static_cast<double>(smallest) < largest_ / size_range;
    lowest_ = cut_ ? largest_ / size_range : static_cast<double>(smallest);
  }

  Color operator()(const Buffer& buffer) const {
    if (kinds_.size() > 1) return color_of(kind_of(instance_, buffer));
    if (largest_ <= lowest_) return color_on_scale(0.4);
    return color_on_scale(std::log2(static_cast<double>(buffer.bytes) / lowest_) /
                          std::log2(largest_ / lowest_));
  }

  void legend(Canvas& canvas, Point at) const {
    if (kinds_.size() > 1) {
      std::vector<LegendEntry> entries;
      for (const TensorKind kind : all_kinds)
        if (kinds_.contains(kind)) entries.push_back({planner::tensor_kind_name(kind), color_of(kind)});
      draw_legend(canvas, at, entries);
    } else if (largest_ > 0) {
      scale(canvas, at);
    }
  }

 private:
  void scale(Canvas& canvas, Point at) const {
    const TextStyle style{.size = 12};
    if (largest_ <= lowest_) {
      canvas.text(at, "every buffer: " + short_bytes(largest_), style);
      return;
    }
    const std::string low = fmt::format("buffer of {}{}", short_bytes(lowest_), cut_ ? " or less" : "");
    canvas.text(at, low, style);
    at.x += canvas.text_width(low, style) + 8;
    for (int i = 0; i < 160; ++i) canvas.fill({at.x + i, at.y - 10, 1.3, 12}, color_on_scale(i / 159.0));
    canvas.text({at.x + 168, at.y}, short_bytes(largest_), style);
  }

  const Instance& instance_;
  std::set<TensorKind> kinds_;
  double lowest_ = 0, largest_ = 0;
  bool cut_ = false;  // there are buffers below `lowest_`
};

Field field_of(const Instance& instance, const Placement& placement) {
  std::uint32_t end = 1;
  for (const Buffer& b : instance.buffers) end = std::max(end, b.upper);
  return {plot_box, static_cast<double>(end),
          1.03 * std::max<double>(static_cast<double>(placement.total_bytes), 1)};
}

Box box_of(const Field& field, const Buffer& buffer, std::uint64_t offset) {
  const double left = field.x(buffer.lower);
  const double top = field.y(static_cast<double>(offset + buffer.bytes));
  return {left, top, field.x(buffer.upper) - left, field.y(static_cast<double>(offset)) - top};
}

// Relative to the plot, in pixels of the density.
Box scaled(const Box& box) {
  return {(box.x - plot_box.x) * density_scale, (box.y - plot_box.y) * density_scale,
          box.width * density_scale, box.height * density_scale};
}

void draw_buffers(Canvas& canvas, const PlacementPicture& picture, const Field& field,
                  const Painter& painter) {
  Density slivers(static_cast<int>(plot_box.width) * density_scale,
                  static_cast<int>(plot_box.height) * density_scale);
  std::vector<std::pair<Box, Color>> blocks;
  for (std::size_t i = 0; i < picture.instance->buffers.size(); ++i) {
    const Buffer& buffer = picture.instance->buffers[i];
    if (buffer.bytes == 0) continue;
    const Box box = box_of(field, buffer, picture.placement->offsets[i]);
    if (box.width < 1 || box.height < 1)
      slivers.add(scaled(box), painter(buffer));
    else
      blocks.emplace_back(box, painter(buffer));
  }
  if (!slivers.empty()) canvas.image(slivers.image(), plot_box);
  for (const auto& [box, color] : blocks) {
    canvas.fill(box, color);
    if (box.width > separable && box.height > separable)
      canvas.outline(box, {.color = {1, 1, 1, 0.85}, .width = 0.6});
  }
}

std::string subtitle(const PlacementPicture& picture, std::uint64_t bound) {
  const double total = static_cast<double>(picture.placement->total_bytes);
  const double over = bound == 0 ? 0 : total / static_cast<double>(bound) - 1;
  return fmt::format("policy {}: {} in {} buffers, {}", picture.policy, short_bytes(total),
                     picture.instance->buffers.size(),
                     over == 0 ? "which is the bound: no placement is smaller"
                               : fmt::format("{:.2f}% above the most that is alive at once", 100 * over));
}

void draw_levels(Canvas& canvas, const Field& field, double total, double bound) {
  canvas.line({field.box.x, field.y(total)}, {field.box.right(), field.y(total)}, {.width = 1.4});
  if (bound < total)
    canvas.line({field.box.x, field.y(bound)}, {field.box.right(), field.y(bound)},
                {.color = {0.8, 0.1, 0.1}, .width = 1.4, .dashed = true});
}

void draw(Canvas& canvas, const PlacementPicture& picture) {
  const Instance& instance = *picture.instance;
  const Field field = field_of(instance, *picture.placement);
  const std::uint64_t bound = planner::max_live_bytes(instance.buffers);
  const Painter painter(instance);
  canvas.text({plot_box.x, 28}, instance.name, {.size = 18, .bold = true});
  canvas.text({plot_box.x, 50}, subtitle(picture, bound));
  draw_axes(canvas, field, count_ticks(field.x_end, 10), byte_ticks(field.y_end, 12),
            instance.trace != nullptr ? "operation" : "time in the instance's own units", "address");
  draw_buffers(canvas, picture, field, painter);
  draw_levels(canvas, field, static_cast<double>(picture.placement->total_bytes), static_cast<double>(bound));
  painter.legend(canvas, {plot_box.x, picture_height - 22});
  std::vector<LegendEntry> levels{{"memory needed", {0.13, 0.13, 0.13}, true}};
  if (bound < picture.placement->total_bytes)
    levels.push_back({"most alive at once", {0.8, 0.1, 0.1}, true, true});
  draw_legend(canvas, {plot_box.right() - 330, picture_height - 22}, levels);
}

}  // namespace

Result<std::vector<std::string>> plot_placement(const std::string& prefix, const PlacementPicture& picture) {
  return write_picture(prefix, picture_width, picture_height,
                       [&picture](Canvas& canvas) { draw(canvas, picture); });
}

}  // namespace terrace::plot
