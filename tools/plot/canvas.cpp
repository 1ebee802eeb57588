#include "tools/plot/canvas.h"

#include <cairo-svg.h>
#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>

namespace terrace::plot {
namespace {

using Surface = std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)>;
using Context = std::unique_ptr<cairo_t, void (*)(cairo_t*)>;

void use(cairo_t* cairo, const Color& c) { cairo_set_source_rgba(cairo, c.red, c.green, c.blue, c.alpha); }

void use(cairo_t* cairo, const LineStyle& style) {
  use(cairo, style.color);
  cairo_set_line_width(cairo, style.width);
  const double dash[] = {5, 4};
  cairo_set_dash(cairo, dash, style.dashed ? 2 : 0, 0);
}

void use(cairo_t* cairo, const TextStyle& style) {
  use(cairo, style.color);
  cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo, style.size);
}

void trace(cairo_t* cairo, std::span<const Point> points) {
  for (const Point& p : points) cairo_line_to(cairo, p.x, p.y);
}

// cairo wants 0xAARRGGBB with the colours multiplied by alpha.
std::uint32_t premultiplied(const Color& c) {
  const auto part = [&c](double value) {
    return static_cast<std::uint32_t>(std::lround(255 * std::clamp(value * c.alpha, 0.0, 1.0)));
  };
  const auto alpha = static_cast<std::uint32_t>(std::lround(255 * std::clamp(c.alpha, 0.0, 1.0)));
  return alpha << 24 | part(c.red) << 16 | part(c.green) << 8 | part(c.blue);
}

Surface surface_of(const Image& image) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, image.width, image.height),
                  cairo_surface_destroy);
  unsigned char* rows = cairo_image_surface_get_data(surface.get());
  if (rows == nullptr) return surface;  // out of memory: the error shows when the picture is finished
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const std::uint32_t pixel = premultiplied(image.pixels[static_cast<std::size_t>(y) * image.width + x]);
      std::memcpy(rows + static_cast<std::ptrdiff_t>(y) * stride + std::ptrdiff_t{4} * x, &pixel, 4);
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

std::string draw_on(cairo_surface_t* surface, int width, int height,
                    const std::function<void(Canvas&)>& draw) {
  const Context cairo(cairo_create(surface), cairo_destroy);
  Canvas canvas(cairo.get());
  canvas.fill({0, 0, static_cast<double>(width), static_cast<double>(height)}, {1, 1, 1});
  draw(canvas);
  const cairo_status_t status = cairo_status(cairo.get());
  return status == CAIRO_STATUS_SUCCESS ? "" : cairo_status_to_string(status);
}

std::string write_svg(const std::string& path, int width, int height,
                      const std::function<void(Canvas&)>& draw) {
  const Surface surface(cairo_svg_surface_create(path.c_str(), width, height), cairo_surface_destroy);
  cairo_svg_surface_set_document_unit(surface.get(), CAIRO_SVG_UNIT_PX);
  std::string error = draw_on(surface.get(), width, height, draw);
  cairo_surface_finish(surface.get());
  const cairo_status_t status = cairo_surface_status(surface.get());
  if (error.empty() && status != CAIRO_STATUS_SUCCESS) error = cairo_status_to_string(status);
  return error;
}

std::string write_png(const std::string& path, int width, int height,
                      const std::function<void(Canvas&)>& draw) {
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height), cairo_surface_destroy);
  std::string error = draw_on(surface.get(), width, height, draw);
  if (!error.empty()) return error;
  const cairo_status_t status = cairo_surface_write_to_png(surface.get(), path.c_str());
  return status == CAIRO_STATUS_SUCCESS ? "" : cairo_status_to_string(status);
}

}  // namespace

void Canvas::fill(const Box& box, const Color& color) {
  use(cairo_, color);
  cairo_rectangle(cairo_, box.x, box.y, box.width, box.height);
  cairo_fill(cairo_);
}

void Canvas::outline(const Box& box, const LineStyle& style) {
  use(cairo_, style);
  cairo_rectangle(cairo_, box.x, box.y, box.width, box.height);
  cairo_stroke(cairo_);
}

void Canvas::line(Point from, Point to, const LineStyle& style) {
  const Point points[] = {from, to};
  path(points, style);
}

void Canvas::path(std::span<const Point> points, const LineStyle& style) {
  use(cairo_, style);
  cairo_new_path(cairo_);
  trace(cairo_, points);
  cairo_stroke(cairo_);
}

void Canvas::polygon(std::span<const Point> points, const Color& color) {
  use(cairo_, color);
  cairo_new_path(cairo_);
  trace(cairo_, points);
  cairo_close_path(cairo_);
  cairo_fill(cairo_);
}

void Canvas::image(const Image& image, const Box& box) {
  if (image.width == 0 || image.height == 0) return;
  const Surface surface = surface_of(image);
  cairo_save(cairo_);
  cairo_translate(cairo_, box.x, box.y);
  cairo_scale(cairo_, box.width / image.width, box.height / image.height);
  cairo_set_source_surface(cairo_, surface.get(), 0, 0);
  cairo_paint(cairo_);
  cairo_restore(cairo_);
}

void Canvas::text(Point at, const std::string& text, const TextStyle& style) {
  const double width = text_width(text, style);
  const double left = style.anchor == Anchor::left ? 0 : style.anchor == Anchor::right ? width : width / 2;
  use(cairo_, style);
  cairo_move_to(cairo_, at.x - left, at.y);
  cairo_show_text(cairo_, text.c_str());
  cairo_new_path(cairo_);
}

void Canvas::text_upwards(Point at, const std::string& words, const TextStyle& style) {
  cairo_save(cairo_);
  cairo_translate(cairo_, at.x, at.y);
  cairo_rotate(cairo_, -std::numbers::pi / 2);
  text({0, 0}, words, style);
  cairo_restore(cairo_);
}

double Canvas::text_width(const std::string& text, const TextStyle& style) {
  use(cairo_, style);
  cairo_text_extents_t extents;
  cairo_text_extents(cairo_, text.c_str(), &extents);
  return extents.x_advance;
}

Result<std::vector<std::string>> write_picture(const std::string& prefix, int width, int height,
                                               const std::function<void(Canvas&)>& draw) {
  using Writer = std::string (*)(const std::string&, int, int, const std::function<void(Canvas&)>&);
  const std::pair<const char*, Writer> formats[] = {{".svg", write_svg}, {".png", write_png}};
  std::vector<std::string> paths;
  for (const auto& [suffix, write] : formats) {
    paths.push_back(prefix + suffix);
    const std::string error = write(paths.back(), width, height, draw);
    if (!error.empty())
      return refused<std::vector<std::string>>(paths.back() + " cannot be written: " + error);
  }
  return ok(std::move(paths));
}

}  // namespace terrace::plot
