// TERRACE_DISABLE, for each of the libraries that it switches off.
#pragma once

#include <cstdint>
#include <cstring>

namespace terrace::liballoc {

enum class Switch : std::uint8_t { off, on, not_understood };

inline constexpr const char* switch_words = "1, true, yes, on; 0, false, no, off";

inline Switch switch_of(const char* value) {
  if (value == nullptr || *value == '\0') return Switch::off;
  static constexpr const char* words[][2] = {{"1", "0"}, {"true", "false"}, {"yes", "no"}, {"on", "off"}};
  for (const auto& [on, off] : words) {
    if (std::strcmp(value, on) == 0) return Switch::on;
    if (std::strcmp(value, off) == 0) return Switch::off;
  }
  return Switch::not_understood;
}

}  // namespace terrace::liballoc
