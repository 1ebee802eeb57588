// Sizes as people write them on the command line and in TERRACE_* variables: 2G, 1536MiB, 1.5g. One reader,
// so that `terrace run --dram X` and TERRACE_DRAM=X take the same (docs/environment.md). Allocates nothing:
// the library reads them inside the first malloc.
//
//   digits [ . digits ] [ B | K | M | G | T, then B or iB ]     powers of 1024, letters in either case
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>

namespace terrace::wire {

// K of "KiB" is 10; -1: no unit.
constexpr int unit_shift(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  const std::size_t at = std::string_view("KMGTkmgt").find(unit[0]);
  const std::string_view tail = unit.substr(1);
  const bool known = tail.empty() || tail == "B" || tail == "b" || tail == "iB" || tail == "ib";
  return at == std::string_view::npos || !known ? -1 : 10 * (static_cast<int>(at % 4) + 1);
}

// The bytes, rounded down; 0, or EINVAL for what is no size, ERANGE for 2^62 and more. `*bytes` stays as it
// is on failure. A billionth is the finest fraction that counts.
constexpr int read_size(std::string_view text, std::uint64_t* bytes) {
  constexpr std::uint64_t end = std::uint64_t{1} << 62;
  constexpr std::uint64_t finest = 1'000'000'000;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t at = 0, digits = 0;
  std::uint64_t whole = 0, part = 0, place = 1;
  for (; at < text.size() && is_digit(text[at]); ++at, ++digits)
    whole = whole < end / 10 ? whole * 10 + static_cast<std::uint64_t>(text[at] - '0') : end;
  if (at < text.size() && text[at] == '.')
    for (++at; at < text.size() && is_digit(text[at]); ++at, ++digits)
      if (place < finest) part = part * 10 + static_cast<std::uint64_t>(text[at] - '0'), place *= 10;
  const int shift = unit_shift(text.substr(at));
  if (digits == 0 || shift < 0) return EINVAL;
  if (whole >= end >> shift) return ERANGE;
  // part < place <= 10^9, so that neither product passes 2^60.
  const std::uint64_t high = (part << (shift / 2)) / place, rest = (part << (shift / 2)) % place;
  *bytes = (whole << shift) + (high << (shift - shift / 2)) + ((rest << (shift - shift / 2)) / place);
  return 0;
}

}  // namespace terrace::wire
