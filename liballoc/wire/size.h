// Sizes and percentages as people write them on the command line, in TERRACE_* variables and in
// terraced.toml: 2G, 1536MiB, 1.5g, 60.5%. One reader, so that all take the same (docs/environment.md).
// Allocates nothing: the library reads them inside the first malloc. amount.h has the same with a sentence
// for an error.
//
//   size:       digits [ . digits ] [ B | K | M | G | T, then B or iB ]     powers of 1024, either case
//   percentage: digits [ . digits ] %                                       above 0 and up to 100
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>

namespace terrace::wire {

// For messages: what is accepted.
inline constexpr char size_grammar[] =
    "a number and B, K, M, G or T without a space, such as 2G, 1.5g or 1536MiB";
inline constexpr char percent_grammar[] = "more than 0% and at most 100%, such as 60% or 60.5%";

// Whoever is asked for a budget or a pool refuses less than this: the staging of the pager alone would not
// fit, and a pool takes in no two runs.
inline constexpr std::uint64_t least_budget_bytes = std::uint64_t{32} << 20;
inline constexpr std::uint64_t least_pool_bytes = std::uint64_t{4} << 20;

// K of "KiB" is 10; -1: no unit.
constexpr int unit_shift(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  const std::size_t at = std::string_view("KMGTkmgt").find(unit[0]);
  const std::string_view tail = unit.substr(1);
  const bool known = tail.empty() || tail == "B" || tail == "b" || tail == "iB" || tail == "ib";
  return at == std::string_view::npos || !known ? -1 : 10 * (static_cast<int>(at % 4) + 1);
}

// whole + part / place, place being a power of ten up to `finest`: a billionth is the finest fraction that
// counts.
struct Decimal {
  static constexpr std::uint64_t end = std::uint64_t{1} << 62;
  static constexpr std::uint64_t finest = 1'000'000'000;
  std::uint64_t whole = 0, part = 0, place = 1;  // whole is at most `end`
  std::size_t digits = 0;                        // 0: there is no number
  std::string_view rest;                         // what follows it
};

constexpr Decimal read_decimal(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto value = [](char c) { return static_cast<std::uint64_t>(c - '0'); };
  Decimal d;
  std::size_t at = 0;
  for (; at < text.size() && is_digit(text[at]); ++at, ++d.digits)
    d.whole = d.whole < Decimal::end / 10 ? d.whole * 10 + value(text[at]) : Decimal::end;
  if (at < text.size() && text[at] == '.')
    for (++at; at < text.size() && is_digit(text[at]); ++at, ++d.digits)
      if (d.place < Decimal::finest) d.part = d.part * 10 + value(text[at]), d.place *= 10;
  d.rest = text.substr(at);
  return d;
}

// The bytes, rounded down; 0, or EINVAL for what is no size, ERANGE for 2^62 and more. `*bytes` stays as it
// is on failure.
constexpr int read_size(std::string_view text, std::uint64_t* bytes) {
  const Decimal d = read_decimal(text);
  const int shift = unit_shift(d.rest);
  if (d.digits == 0 || shift < 0) return EINVAL;
  if (d.whole >= Decimal::end >> shift) return ERANGE;
  // part < place <= 10^9, so that neither product passes 2^60.
  const std::uint64_t high = (d.part << (shift / 2)) / d.place, rest = (d.part << (shift / 2)) % d.place;
  *bytes = (d.whole << shift) + (high << (shift - shift / 2)) + ((rest << (shift - shift / 2)) / d.place);
  return 0;
}

// In billionths of a hundredth: all of it is this.
inline constexpr std::uint64_t whole_share = 100 * Decimal::finest;

// 0; EINVAL for what is no percentage, ERANGE for 0% and what is above 100%. `*share` stays as it is on
// failure.
constexpr int read_percent(std::string_view text, std::uint64_t* share) {
  const Decimal d = read_decimal(text);
  if (d.digits == 0 || d.rest != "%") return EINVAL;
  const std::uint64_t read =
      d.whole > 100 ? whole_share + 1 : d.whole * Decimal::finest + d.part * (Decimal::finest / d.place);
  if (read == 0 || read > whole_share) return ERANGE;
  *share = read;
  return 0;
}

// Rounded down. `share` is at most whole_share.
constexpr std::uint64_t share_of(std::uint64_t whole, std::uint64_t share) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{whole} * share / whole_share);
}

}  // namespace terrace::wire
