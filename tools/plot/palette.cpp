#include "tools/plot/palette.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace terrace::plot {

using wire::TensorKind;

namespace {

constexpr Color rgb(unsigned value) {
  return {(value >> 16 & 255) / 255.0, (value >> 8 & 255) / 255.0, (value & 255) / 255.0};
}

double between(double a, double b, double share) { return a + (b - a) * share; }

}  // namespace

Color color_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::weight:
      return rgb(0x4477AA);
    case TensorKind::activation:
      return rgb(0x66CCEE);
    case TensorKind::gradient:
      return rgb(0xEE6677);
    case TensorKind::input:
      return rgb(0xCCBB44);
    case TensorKind::optimizer:
      return rgb(0xAA3377);
    case TensorKind::workspace:
      return rgb(0x999999);
    case TensorKind::other:
      return rgb(0x228833);
  }
  return rgb(0x228833);
}

Color color_on_scale(double share) {
  constexpr std::array stops{rgb(0x440154), rgb(0x414487), rgb(0x2A788E),
                             rgb(0x22A884), rgb(0x7AD151), rgb(0xFDE725)};
  const double at = std::clamp(share, 0.0, 1.0) * (stops.size() - 1);
  const auto lower = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  const double part = at - static_cast<double>(lower);
  const Color &a = stops[lower], &b = stops[lower + 1];
  return {between(a.red, b.red, part), between(a.green, b.green, part), between(a.blue, b.blue, part)};
}

}  // namespace terrace::plot
