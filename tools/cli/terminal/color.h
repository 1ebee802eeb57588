// Colour on a terminal, none anywhere else, none with NO_COLOR (https://no-color.org).
#pragma once

#include <string>

namespace terrace::cli {

namespace color {
inline constexpr const char* plain = "";
inline constexpr const char* bold = "\033[1m";
inline constexpr const char* dim = "\033[2m";
inline constexpr const char* red = "\033[31m";
inline constexpr const char* green = "\033[32m";
inline constexpr const char* yellow = "\033[33m";
inline constexpr const char* cyan = "\033[36m";
}  // namespace color

class Painter {
 public:
  explicit Painter(int fd);
  std::string operator()(const std::string& text, const char* paint) const;
  bool enabled() const { return enabled_; }

 private:
  bool enabled_;
};

}  // namespace terrace::cli
