// Arithmetic on bytes, and bytes in messages. What people write as a size is read in wire/amount.h.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::daemon {

// What is left of one amount without another: 0 where that would be less than nothing.
constexpr std::uint64_t minus(std::uint64_t from, std::uint64_t bytes) noexcept {
  return from > bytes ? from - bytes : 0;
}

// "1.5 GiB": for messages.
std::string format_size(std::uint64_t bytes);

}  // namespace terrace::daemon
