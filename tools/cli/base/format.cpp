#include "tools/cli/base/format.h"

#include <fmt/format.h>

#include <array>

namespace terrace::cli {

namespace {

// Three significant digits whatever the magnitude, so that columns keep their width.
std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

// Divides until the value reads below `step`; 999.5 would print as "1000", hence the margin.
template <std::size_t N>
std::string scaled(double value, double step, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (value >= step - 0.5 && unit + 1 < N) {
    value /= step;
    ++unit;
  }
  return three_digits(value) + " " + units.at(unit);
}

std::string long_duration(std::uint64_t seconds) {
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

}  // namespace

std::string bytes_text(std::uint64_t bytes, bool exact) {
  if (exact) return fmt::format("{}", bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return scaled(static_cast<double>(bytes) / 1024, 1024, units);
}

std::string duration_text(std::uint64_t nanoseconds) {
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  const std::uint64_t seconds = nanoseconds / 1'000'000'000;
  if (seconds >= 100) return long_duration(seconds);
  constexpr std::array units{"µs", "ms", "s"};
  return scaled(static_cast<double>(nanoseconds) / 1000, 1000, units);
}

std::string count_text(double count) {
  if (count < 999.5)
    return count == static_cast<double>(static_cast<long>(count)) ? fmt::format("{:.0f}", count)
                                                                  : three_digits(count);
  constexpr std::array units{"k", "M", "G", "T"};
  return scaled(count / 1000, 1000, units);
}

std::string percent_text(double ratio) { return fmt::format("{:.1f}%", ratio * 100); }

}  // namespace terrace::cli
