// Amounts of memory as settings have them: "16G", "1536MiB", "80%". Powers of 1024, no spaces, no fractions,
// capital letters; the command line takes more (wire/size.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::daemon {

struct Amount {
  enum class Unit { bytes, percent };
  Unit unit = Unit::bytes;
  std::uint64_t value = 0;

  std::uint64_t of(std::uint64_t whole) const noexcept {
    return unit == Unit::bytes ? value : whole / 100 * value;
  }
  friend bool operator==(const Amount&, const Amount&) = default;
};

inline constexpr std::string_view size_grammar =
    "a number with B, K, M, G or T (or KiB, MiB, GiB, TiB), such as 16G";
inline constexpr std::string_view amount_grammar =
    "a number with B, K, M, G or T such as 16G, or a percentage from 1% to 100%";

// Nothing for what does not parse, is zero, or does not fit into 63 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);
std::optional<Amount> parse_amount(std::string_view text);

// What is left of one amount without another: 0 where that would be less than nothing.
constexpr std::uint64_t minus(std::uint64_t from, std::uint64_t bytes) noexcept {
  return from > bytes ? from - bytes : 0;
}

// "1.5 GiB": for messages.
std::string format_size(std::uint64_t bytes);

}  // namespace terrace::daemon
