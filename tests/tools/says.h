// Whether a text says something.
#pragma once

#include <string>

namespace terrace::cli {

inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace terrace::cli
