// toml++, as the readers of terraced.toml include it, and where in the file something is.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

// toml++ 3.3 states as assertions what malformed text can break ("[[["), and in a release build as
// unreachable: here, through which alone it is included, a broken one is an error like the others.
#undef NDEBUG
namespace terrace::daemon {
[[noreturn]] inline void assertion_of_toml(const char* what) { throw std::logic_error(what); }
}  // namespace terrace::daemon
#define TOML_ASSERT(condition) ((condition) ? void() : terrace::daemon::assertion_of_toml(#condition))
#include <toml++/toml.h>

namespace terrace::daemon {

inline std::string located(std::string_view file, const toml::source_region& where, std::string_view what) {
  return fmt::format("{}:{}: {}", file, where.begin.line, what);
}

}  // namespace terrace::daemon
