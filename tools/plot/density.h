// What is smaller than a pixel, added up: each rectangle gives every pixel the share of it that it covers.
//
// Thousands of slivers drawn one by one would vanish or, through the rounding of each, leave seams. Here a
// pixel has the mean colour of what lies in it and is as opaque as it is covered; the root makes a lone
// sliver visible without letting it look like a block. Cost: the pixels that are touched, in all.
#pragma once

#include <vector>

#include "tools/plot/canvas.h"

namespace terrace::plot {

class Density {
 public:
  Density(int width, int height);
  // `box` in pixels of this grid; what lies outside is cut off.
  void add(const Box& box, const Color& color);
  bool empty() const { return empty_; }
  Image image() const;

 private:
  struct Sum {
    float red = 0, green = 0, blue = 0, coverage = 0;
  };
  void add_row(int y, double share, const Box& box, const Color& color);

  int width_, height_;
  bool empty_ = true;
  std::vector<Sum> sums_;
};

}  // namespace terrace::plot
