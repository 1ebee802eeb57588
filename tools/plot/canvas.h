// Drawing in two formats from one code: a picture is a function that draws on a Canvas, and write_picture()
// runs it once for the SVG and once for the PNG. cairo does the work.
//
// Units are pixels of the PNG, y downwards. Text is DejaVu Sans; in the SVG it is outlines, so that it looks
// the same where the font is missing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "liballoc/wire/result.h"

typedef struct _cairo cairo_t;

namespace terrace::plot {

struct Color {
  double red = 0, green = 0, blue = 0, alpha = 1;
};

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class Anchor : std::uint8_t { left, middle, right };

struct TextStyle {
  double size = 13;
  Anchor anchor = Anchor::left;
  bool bold = false;
  Color color{0.13, 0.13, 0.13};
};

struct LineStyle {
  Color color{0.13, 0.13, 0.13};
  double width = 1;
  bool dashed = false;
};

// Pixels with straight (not premultiplied) colours, row by row from the top.
struct Image {
  int width = 0, height = 0;
  std::vector<Color> pixels;
};

// Not owned: valid while the picture is drawn.
class Canvas {
 public:
  explicit Canvas(cairo_t* cairo) : cairo_(cairo) {}

  void fill(const Box& box, const Color& color);
  void outline(const Box& box, const LineStyle& style);
  void line(Point from, Point to, const LineStyle& style);
  void path(std::span<const Point> points, const LineStyle& style);  // open
  void polygon(std::span<const Point> points, const Color& color);
  void image(const Image& image, const Box& box);
  // `at` is the anchor on the baseline.
  void text(Point at, const std::string& text, const TextStyle& style = {});
  void text_upwards(Point at, const std::string& text, const TextStyle& style = {});
  double text_width(const std::string& text, const TextStyle& style = {});

 private:
  cairo_t* cairo_;
};

// Writes PREFIX.svg and PREFIX.png (white background). The paths written, or why not.
Result<std::vector<std::string>> write_picture(const std::string& prefix, int width, int height,
                                               const std::function<void(Canvas&)>& draw);

}  // namespace terrace::plot
