#include "tools/cli/terminal/color.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace terrace::cli {

namespace {

bool wants_color(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::strcmp(terminal, "dumb") == 0;
  return isatty(fd) == 1 && !dumb && (no_color == nullptr || *no_color == '\0');
}

}  // namespace

Painter::Painter(int fd) : enabled_(wants_color(fd)) {}

std::string Painter::operator()(const std::string& text, const char* paint) const {
  return enabled_ && *paint != '\0' ? paint + text + "\033[0m" : text;
}

}  // namespace terrace::cli
