// Names and sentences out of messages, as the daemon keeps and prints them. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace terrace::daemon {

// The text up to its NUL, within `bytes`: valid UTF-8 without control characters, those that turn or break
// lines included. What is none of that becomes '?'.
std::string clean_text(const char* text, std::size_t bytes);
// The same, but `if_empty` for an empty one.
std::string clean_name(const char* text, std::size_t bytes, const char* if_empty);

}  // namespace terrace::daemon
