// Numbers as people read them: IEC units for bytes, three significant digits, durations in the unit that
// fits.
//
// JSON never passes through here: there bytes and seconds are plain numbers.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::cli {

// 0 -> "0 B", 1536 -> "1.50 KiB", 2147483648 -> "2.00 GiB"; with `exact`, the plain number of bytes.
std::string bytes_text(std::uint64_t bytes, bool exact = false);

// 812 -> "812 ns", 3'200 -> "3.20 µs", 1.5e9 -> "1.50 s", 192 s -> "3m12s", 2 h 5 min -> "2h05m".
std::string duration_text(std::uint64_t nanoseconds);

// 1234567 -> "1.23 M"; below 1000 the number itself.
std::string count_text(double count);

// 0.256 -> "25.6%".
std::string percent_text(double ratio);

}  // namespace terrace::cli
