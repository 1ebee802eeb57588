#include "tools/plot/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace terrace::plot {
namespace {

constexpr std::array byte_units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
constexpr Color grid{0.88, 0.88, 0.88};
constexpr Color frame{0.45, 0.45, 0.45};

// 1, 2 or 5 times a power of ten.
double decimal_step(double largest, int wanted) {
  const double raw = largest / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * 0.999) return factor * power;
  return 10 * power;
}

template <class Label>
std::vector<Tick> ticks(double largest, double step, const Label& label) {
  std::vector<Tick> all;
  for (int i = 0; step * i <= largest * 1.0001; ++i) all.push_back({step * i, label(step * i)});
  return all;
}

std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string in_unit(double bytes, std::size_t unit) {
  const double value = std::ldexp(bytes, -10 * static_cast<int>(unit));
  return bytes == 0 ? "0" : fmt::format("{:.4g} {}", value, byte_units[unit]);
}

struct TimeUnit {
  double us;
  const char* name;
};

TimeUnit time_unit(double largest_us) {
  return largest_us >= 1e6 ? TimeUnit{1e6, "s"} : largest_us >= 1e3 ? TimeUnit{1e3, "ms"} : TimeUnit{1, "µs"};
}

std::size_t unit_of(double bytes) {
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < byte_units.size(); ++unit) bytes /= 1024;
  return unit;
}

void draw_x(Canvas& canvas, const Field& field, const std::vector<Tick>& ticks, const std::string& title) {
  for (const Tick& tick : ticks) {
    const double x = field.x(tick.value);
    canvas.line({x, field.box.y}, {x, field.box.bottom()}, {.color = grid});
    if (!title.empty())
      canvas.text({x, field.box.bottom() + 17}, tick.label, {.size = 12, .anchor = Anchor::middle});
  }
  canvas.text({field.box.x + field.box.width / 2, field.box.bottom() + 36}, title,
              {.anchor = Anchor::middle});
}

void draw_y(Canvas& canvas, const Field& field, const std::vector<Tick>& ticks, const std::string& title) {
  for (const Tick& tick : ticks) {
    const double y = field.y(tick.value);
    canvas.line({field.box.x, y}, {field.box.right(), y}, {.color = grid});
    canvas.text({field.box.x - 8, y + 4}, tick.label, {.size = 12, .anchor = Anchor::right});
  }
  canvas.text_upwards({field.box.x - 78, field.box.y + field.box.height / 2}, title,
                      {.anchor = Anchor::middle});
}

}  // namespace

std::vector<Tick> byte_ticks(double largest, int wanted) {
  if (!(largest > 0)) return {{0, "0"}};
  const double step = std::exp2(std::max(0.0, std::ceil(std::log2(largest / wanted))));
  return ticks(largest, step, [](double value) { return in_unit(value, unit_of(value)); });
}

std::vector<Tick> count_ticks(double largest, int wanted) {
  if (!(largest > 0)) return {{0, "0"}};
  return ticks(largest, std::max(1.0, decimal_step(largest, wanted)), grouped);
}

std::vector<Tick> time_ticks(double largest_us, int wanted) {
  if (!(largest_us > 0)) return {{0, "0"}};
  const TimeUnit unit = time_unit(largest_us);
  const double step = decimal_step(largest_us, wanted);
  return ticks(largest_us, step,
               [&](double us) { return us == 0 ? "0" : fmt::format("{:.6g} {}", us / unit.us, unit.name); });
}

std::string short_time(double us, double largest_us) {
  const TimeUnit unit = time_unit(largest_us);
  const double value = us / unit.us;
  return fmt::format("{:.{}f} {}", value, value >= 100 || value == 0 ? 0 : value >= 10 ? 1 : 2, unit.name);
}

std::string short_bytes(double bytes) {
  const std::size_t unit = unit_of(bytes);
  const double value = std::ldexp(bytes, -10 * static_cast<int>(unit));
  if (unit == 0) return fmt::format("{:.0f} B", value);
  return fmt::format("{:.{}f} {}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2, byte_units[unit]);
}

void draw_axes(Canvas& canvas, const Field& field, const std::vector<Tick>& x_ticks,
               const std::vector<Tick>& y_ticks, const std::string& x_title, const std::string& y_title) {
  draw_x(canvas, field, x_ticks, x_title);
  draw_y(canvas, field, y_ticks, y_title);
  canvas.outline(field.box, {.color = frame});
}

double draw_legend(Canvas& canvas, Point at, const std::vector<LegendEntry>& entries) {
  const TextStyle style{.size = 12};
  for (const LegendEntry& entry : entries) {
    if (entry.line) {
      canvas.line({at.x, at.y - 4}, {at.x + 18, at.y - 4},
                  {.color = entry.color, .width = 2, .dashed = entry.dashed});
    } else {
      canvas.fill({at.x + 4, at.y - 10, 12, 12}, entry.color);
    }
    canvas.text({at.x + 23, at.y}, entry.label, style);
    at.x += 23 + canvas.text_width(entry.label, style) + 18;
  }
  return at.x;
}

}  // namespace terrace::plot
