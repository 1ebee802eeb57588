// See kernel_text.h.
#include "liballoc/base/kernel_text.h"

#include <cstring>

namespace terrace::liballoc {
namespace {

// What comes behind `key` at the beginning of a line, where that ends the key; nullptr: there is no such
// line.
const char* find_line(const char* text, const char* key) {
  const std::size_t length = std::strlen(key);
  for (const char* line = text; *line != '\0';) {
    const bool begins = std::strncmp(line, key, length) == 0;
    if (begins && (line[length] == ' ' || line[length] == ':')) return line + length;
    const char* end = std::strchr(line, '\n');
    if (end == nullptr) return nullptr;
    line = end + 1;
  }
  return nullptr;
}

}  // namespace

bool parse_number(const char* text, std::uint64_t* value) {
  if (*text < '0' || *text > '9') return false;
  std::uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    if (number > (~0ULL - 9) / 10) return false;
    number = number * 10 + static_cast<std::uint64_t>(*text - '0');
  }
  *value = number;
  return true;
}

bool find_field(const char* text, const char* key, std::uint64_t* value) {
  const char* const behind = find_line(text, key);
  return behind != nullptr && *behind == ' ' && parse_number(behind + 1, value);
}

bool find_kib(const char* text, const char* key, std::uint64_t* bytes) {
  const char* at = find_line(text, key);
  if (at == nullptr || *at != ':') return false;
  do ++at;
  while (*at == ' ' || *at == '\t');
  std::uint64_t kib = 0;
  if (!parse_number(at, &kib) || kib > (~0ULL >> 10)) return false;
  while (*at >= '0' && *at <= '9') ++at;
  if (std::strncmp(at, " kB", 3) != 0) return false;
  *bytes = kib << 10;
  return true;
}

}  // namespace terrace::liballoc
