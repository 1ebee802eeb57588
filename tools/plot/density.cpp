#include "tools/plot/density.h"

#include <algorithm>
#include <cmath>

namespace terrace::plot {
namespace {

// How much of the pixel [at, at + 1) lies in [begin, end).
double covered(int at, double begin, double end) {
  return std::max(0.0, std::min(end, at + 1.0) - std::max(begin, static_cast<double>(at)));
}

int first_pixel(double begin) { return std::max(0, static_cast<int>(std::floor(begin))); }

}  // namespace

Density::Density(int width, int height)
    : width_(std::max(width, 1)),
      height_(std::max(height, 1)),
      sums_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_)) {}

void Density::add(const Box& box, const Color& color) {
  const Box inside{std::max(box.x, 0.0), std::max(box.y, 0.0),
                   std::min(box.right(), static_cast<double>(width_)) - std::max(box.x, 0.0),
                   std::min(box.bottom(), static_cast<double>(height_)) - std::max(box.y, 0.0)};
  if (!(inside.width > 0) || !(inside.height > 0)) return;
  empty_ = false;
  for (int y = first_pixel(inside.y); y < height_ && y < inside.bottom(); ++y)
    add_row(y, covered(y, inside.y, inside.bottom()), inside, color);
}

void Density::add_row(int y, double share, const Box& box, const Color& color) {
  Sum* row = sums_.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width_);
  for (int x = first_pixel(box.x); x < width_ && x < box.right(); ++x) {
    const auto part = static_cast<float>(share * covered(x, box.x, box.right()));
    row[x].red += part * static_cast<float>(color.red);
    row[x].green += part * static_cast<float>(color.green);
    row[x].blue += part * static_cast<float>(color.blue);
    row[x].coverage += part;
  }
}

Image Density::image() const {
  Image image{width_, height_, std::vector<Color>(sums_.size())};
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    if (sum.coverage <= 0) {
      image.pixels[i].alpha = 0;
      continue;
    }
    image.pixels[i] = {sum.red / sum.coverage, sum.green / sum.coverage, sum.blue / sum.coverage,
                       std::sqrt(std::min(1.0F, sum.coverage))};
  }
  return image;
}

}  // namespace terrace::plot
