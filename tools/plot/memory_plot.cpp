#include "tools/plot/memory_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/planner/trace_limits.h"
#include "tools/plot/axis.h"
#include "tools/plot/canvas.h"
#include "tools/plot/columns.h"
#include "tools/plot/palette.h"

namespace terrace::plot {

using planner::OpTiming;
using planner::SimulationReport;
using planner::Stalls;

namespace {

constexpr int width = 1400;
constexpr double left_margin = 108, plot_width = 1260, top_margin = 84, panel = 230, gap = 44, foot = 92;
constexpr Color tier_color{0.27, 0.47, 0.67};
constexpr Color plain_color{0.56, 0.68, 0.80};
constexpr Color limit_color{0.8, 0.1, 0.1};

struct Cause {
  const char* label;
  double Stalls::*amount;
  Color color;
};
constexpr std::array causes{Cause{"late prefetch", &Stalls::late_prefetch_us, {0.93, 0.53, 0.18}},
                            Cause{"fetch on demand", &Stalls::fetch_us, {0.67, 0.20, 0.47}},
                            Cause{"waiting for room", &Stalls::room_us, {0.13, 0.53, 0.20}}};

std::vector<std::size_t> tiers_in_use(const SimulationReport& report) {
  std::vector<std::size_t> tiers;
  for (std::size_t i = 0; i < report.tier_peak_bytes.size(); ++i)
    if (i == 0 || report.tier_peak_bytes[i] > 0) tiers.push_back(i);
  return tiers;
}

// With the limit in view where it is of the order of what is used.
double top_of_scale(std::uint64_t peak, std::uint64_t capacity) {
  const auto used = std::max(static_cast<double>(peak), 1.0);
  const auto limit = static_cast<double>(capacity);
  return 1.06 * (limit < 2 * used ? std::max(limit, used) : used);
}

Columns use_of(const Field& field, const SimulationReport& report, std::size_t tier) {
  Columns columns(field);
  for (std::size_t i = 0; i < report.memory.size(); ++i) {
    const double end = i + 1 < report.memory.size() ? report.memory[i + 1].time_us : report.total_us;
    columns.hold(report.memory[i].time_us, end, static_cast<double>(report.memory[i].tier_bytes[tier]));
  }
  return columns;
}

// An operation's stalls lie before it runs; several causes one after the other.
void draw_stalls(Canvas& canvas, const Field& field, const SimulationReport& report, std::size_t cause) {
  Columns columns(field, 1);
  for (const OpTiming& op : report.ops) {
    double begin = op.ready_us;
    for (std::size_t earlier = 0; earlier < cause; ++earlier) begin += op.stalls.*causes[earlier].amount;
    columns.cover(begin, begin + op.stalls.*causes[cause].amount);
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns.value(i) <= 0.01) continue;
    Color color = causes[cause].color;
    color.alpha = 0.45 * std::min(1.0, columns.value(i));
    canvas.fill({columns.left(i), field.box.y, columns.width(), field.box.height}, color);
  }
}

void draw_limit(Canvas& canvas, const Field& field, std::uint64_t capacity) {
  if (capacity == planner::unlimited_bytes) return;
  const auto limit = static_cast<double>(capacity);
  const std::string label = "limit " + short_bytes(limit);
  if (limit > field.y_end) {
    canvas.text({field.box.right() - 6, field.box.y - 6}, label + ", far above",
                {.size = 12, .anchor = Anchor::right, .color = limit_color});
    return;
  }
  canvas.line({field.box.x, field.y(limit)}, {field.box.right(), field.y(limit)},
              {.color = limit_color, .width = 1.6});
  canvas.text({field.box.right() - 6, field.box.y - 6}, label,
              {.size = 12, .anchor = Anchor::right, .color = limit_color});
}

void draw_tier(Canvas& canvas, const StepPicture& picture, std::size_t tier, double y, bool last) {
  const SimulationReport& report = *picture.report;
  const planner::Tier& about = picture.machine->tiers[tier];
  const Field field{{left_margin, y, plot_width, panel},
                    std::max(report.total_us, 1e-9),
                    top_of_scale(report.tier_peak_bytes[tier], about.capacity_bytes)};
  draw_axes(canvas, field, time_ticks(field.x_end, 10), byte_ticks(field.y_end, 8), last ? "time" : "", "");
  const std::vector<Point> area = staircase(field, use_of(field, report, tier));
  canvas.polygon(area, {tier_color.red, tier_color.green, tier_color.blue, 0.35});
  if (tier == 0)
    for (std::size_t cause = 0; cause < causes.size(); ++cause) draw_stalls(canvas, field, report, cause);
  canvas.path(area, {.color = tier_color, .width = 1.2});
  draw_limit(canvas, field, about.capacity_bytes);
  canvas.text(
      {left_margin, y - 6},
      fmt::format("{}, peak {}", about.name, short_bytes(static_cast<double>(report.tier_peak_bytes[tier]))),
      {.bold = true});
}

void draw_step(Canvas& canvas, const StepPicture& picture, const std::vector<std::size_t>& tiers) {
  canvas.text({left_margin, 28}, fmt::format("{} on {}", picture.trace->name, picture.machine->name),
              {.size = 18, .bold = true});
  canvas.text({left_margin, 50}, fmt::format("policy {}: {}", picture.policy, step_summary(*picture.report)));
  double y = top_margin;
  for (const std::size_t tier : tiers) {
    draw_tier(canvas, picture, tier, y, tier == tiers.back());
    y += panel + gap;
  }
  draw_legend(canvas, {left_margin, y - gap + 66}, step_legend(*picture.report));
}

using KindSums = std::array<double, std::size(all_kinds)>;

std::size_t kind_index(const planner::Instance& instance, const planner::Buffer& buffer) {
  if (instance.trace == nullptr) return std::size(all_kinds) - 1;
  const wire::TensorKind kind = buffer.tensor == planner::no_tensor
                                    ? wire::TensorKind::workspace
                                    : instance.trace->tensors[buffer.tensor].kind;
  return static_cast<std::size_t>(std::find(std::begin(all_kinds), std::end(all_kinds), kind) -
                                  std::begin(all_kinds));
}

struct Change {
  std::uint32_t time;
  std::size_t kind;
  double bytes;
};

std::vector<Change> changes_of(const planner::Instance& instance) {
  std::vector<Change> changes;
  for (const planner::Buffer& b : instance.buffers) {
    const std::size_t kind = kind_index(instance, b);
    changes.push_back({b.lower, kind, static_cast<double>(b.bytes)});
    changes.push_back({b.upper, kind, -static_cast<double>(b.bytes)});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  return changes;
}

// One staircase per kind, each the sum of itself and those below.
std::vector<Columns> stacked(const Field& field, const planner::Instance& instance) {
  std::vector<Columns> layers(std::size(all_kinds), Columns(field));
  const std::vector<Change> changes = changes_of(instance);
  KindSums sums{};
  for (std::size_t i = 0; i < changes.size();) {
    const std::uint32_t time = changes[i].time;
    for (; i < changes.size() && changes[i].time == time; ++i) sums[changes[i].kind] += changes[i].bytes;
    if (i == changes.size()) break;
    double sum = 0;
    for (std::size_t kind = 0; kind < sums.size(); ++kind)
      layers[kind].hold(time, changes[i].time, sum += sums[kind]);
  }
  return layers;
}

Field live_field(const LivePicture& picture, double bound) {
  std::uint32_t end = 1;
  for (const planner::Buffer& b : picture.instance->buffers) end = std::max(end, b.upper);
  return {{left_margin, top_margin, plot_width, 2 * panel},
          static_cast<double>(end),
          1.06 * std::max({static_cast<double>(picture.reserved_bytes), bound, 1.0})};
}

// Kinds are worth colours where there is more than one.
bool has_kinds(const planner::Instance& instance) {
  const auto differs = [&](const planner::Buffer& b) {
    return kind_index(instance, b) != kind_index(instance, instance.buffers.front());
  };
  return std::any_of(instance.buffers.begin(), instance.buffers.end(), differs);
}

void draw_live_legend(Canvas& canvas, const LivePicture& picture, double y) {
  KindSums seen{};
  for (const planner::Buffer& b : picture.instance->buffers)
    seen[kind_index(*picture.instance, b)] += static_cast<double>(b.bytes);
  std::vector<LegendEntry> legend;
  if (!has_kinds(*picture.instance)) {
    seen = {};
    legend.push_back({"alive", plain_color});
  }
  for (std::size_t kind = 0; kind < seen.size(); ++kind)
    if (seen[kind] > 0)
      legend.push_back({planner::tensor_kind_name(all_kinds[kind]), color_of(all_kinds[kind])});
  legend.push_back({"reserved by " + picture.policy, limit_color, true});
  draw_legend(canvas, {left_margin, y}, legend);
}

void draw_live(Canvas& canvas, const LivePicture& picture) {
  const planner::Instance& instance = *picture.instance;
  const auto bound = static_cast<double>(planner::max_live_bytes(instance.buffers));
  const auto reserved = static_cast<double>(picture.reserved_bytes);
  const Field field = live_field(picture, bound);
  canvas.text({left_margin, 28}, instance.name, {.size = 18, .bold = true});
  canvas.text({left_margin, 50}, fmt::format("at most {} alive at once; policy {} reserves {}",
                                             short_bytes(bound), picture.policy, short_bytes(reserved)));
  draw_axes(canvas, field, count_ticks(field.x_end, 10), byte_ticks(field.y_end, 12),
            instance.trace != nullptr ? "operation" : "time in the instance's own units", "bytes alive");
  const std::vector<Columns> layers = stacked(field, instance);
  const bool kinds = has_kinds(instance);
  for (std::size_t kind = layers.size(); kind-- > 0;)
    canvas.polygon(staircase(field, layers[kind]), kinds ? color_of(all_kinds[kind]) : plain_color);
  canvas.line({field.box.x, field.y(reserved)}, {field.box.right(), field.y(reserved)},
              {.color = limit_color, .width = 1.6});
  draw_live_legend(canvas, picture, field.box.bottom() + 66);
}

}  // namespace

std::string step_summary(const SimulationReport& report) {
  const auto time = [&](double us) { return short_time(us, report.total_us); };
  const double slowdown = report.compute_us > 0 ? report.total_us / report.compute_us : 1;
  return fmt::format("{}, {:.2f} times the {} of computing alone; stalled for {}", time(report.total_us),
                     slowdown, time(report.compute_us), time(report.stalls.total_us()));
}

std::vector<LegendEntry> step_legend(const SimulationReport& report) {
  std::vector<LegendEntry> legend{{"bytes in use", {tier_color.red, tier_color.green, tier_color.blue, 0.6}},
                                  {"limit", limit_color, true}};
  for (const Cause& cause : causes)
    if (report.stalls.*cause.amount > 0)
      legend.push_back({std::string("stall: ") + cause.label,
                        {cause.color.red, cause.color.green, cause.color.blue, 0.6}});
  return legend;
}

Result<std::vector<std::string>> plot_step(const std::string& prefix, const StepPicture& picture) {
  const std::vector<std::size_t> tiers = tiers_in_use(*picture.report);
  const double height = top_margin + static_cast<double>(tiers.size()) * (panel + gap) - gap + foot;
  return write_picture(prefix, width, static_cast<int>(height),
                       [&](Canvas& canvas) { draw_step(canvas, picture, tiers); });
}

Result<std::vector<std::string>> plot_live(const std::string& prefix, const LivePicture& picture) {
  return write_picture(prefix, width, static_cast<int>(top_margin + 2 * panel + foot),
                       [&picture](Canvas& canvas) { draw_live(canvas, picture); });
}

}  // namespace terrace::plot
