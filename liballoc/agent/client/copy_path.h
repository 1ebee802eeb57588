// Paths of bounded length, put together without the C library.
#pragma once

#include <cstddef>
#include <initializer_list>

namespace terrace::liballoc {

// "<from><suffix>"; nullptr is an empty string. False: it does not fit.
inline bool copy_path(char* to, std::size_t to_bytes, const char* from, const char* suffix) noexcept {
  std::size_t length = 0;
  for (const char* part : {from, suffix}) {
    for (; part != nullptr && *part != '\0'; ++part) {
      if (length + 1 >= to_bytes) return false;
      to[length++] = *part;
    }
  }
  to[length] = '\0';
  return true;
}

}  // namespace terrace::liballoc
