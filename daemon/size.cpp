// See size.h.
#include "daemon/size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace terrace::daemon {
namespace {

struct Suffix {
  std::string_view text;
  int shift;
};
constexpr std::array suffixes{Suffix{"", 0},   Suffix{"B", 0},    Suffix{"K", 10}, Suffix{"KiB", 10},
                              Suffix{"M", 20}, Suffix{"MiB", 20}, Suffix{"G", 30}, Suffix{"GiB", 30},
                              Suffix{"T", 40}, Suffix{"TiB", 40}};

std::optional<int> shift_of(std::string_view suffix) {
  for (const Suffix& known : suffixes) {
    if (known.text == suffix) return known.shift;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number == 0) return std::nullopt;
  const auto shift = shift_of(text.substr(static_cast<std::size_t>(rest - text.data())));
  constexpr std::uint64_t largest = (std::uint64_t{1} << 63) - 1;
  if (!shift || number > (largest >> *shift)) return std::nullopt;
  return number << *shift;
}

std::optional<Amount> parse_amount(std::string_view text) {
  if (!text.ends_with('%')) {
    const auto bytes = parse_size(text);
    if (!bytes) return std::nullopt;
    return Amount{Amount::Unit::bytes, *bytes};
  }
  text.remove_suffix(1);
  std::uint64_t percent = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  const bool whole = error == std::errc{} && rest == text.data() + text.size();
  if (!whole || percent < 1 || percent > 100) return std::nullopt;
  return Amount{Amount::Unit::percent, percent};
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace terrace::daemon
