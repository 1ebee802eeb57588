// See kernel_text.h.
#include "liballoc/base/kernel_text.h"

#include <cstring>

namespace terrace::liballoc {

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
  const std::size_t length = std::strlen(key);
  for (const char* line = text; *line != '\0';) {
    if (std::strncmp(line, key, length) == 0 && line[length] == ' ')
      return parse_number(line + length + 1, value);
    const char* end = std::strchr(line, '\n');
    if (end == nullptr) return false;
    line = end + 1;
  }
  return false;
}

}  // namespace terrace::liballoc
