#include "tools/cli/budget.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <optional>

#include "liballoc/wire/size.h"
#include "tools/cli/format.h"

namespace terrace::cli {

namespace {

// A plain decimal number: no sign, no exponent, no "inf". Returns what follows it in `rest`.
std::optional<double> leading_number(std::string_view text, std::string_view* rest) {
  if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9'))) return std::nullopt;
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{}) return std::nullopt;
  *rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return number;
}

Result<std::uint64_t> not_a_size(std::string_view text) {
  return refused<std::uint64_t>(fmt::format(
      "'{}' is not a size; write a number and a unit without a space, such as 2G or 1536MiB", text));
}

std::optional<std::uint64_t> percent_of(std::string_view text, std::uint64_t whole) {
  std::string_view rest;
  const auto number = leading_number(text, &rest);
  if (!number || rest != "%" || *number <= 0 || *number > 100) return std::nullopt;
  return static_cast<std::uint64_t>(static_cast<double>(whole) * *number / 100);
}

Result<std::uint64_t> parse_budget(std::string_view text, const Ceiling& ceiling) {
  if (!text.ends_with('%')) return parse_size(text);
  if (const auto bytes = percent_of(text, ceiling.bytes)) return ok(*bytes);
  return refused<std::uint64_t>(
      fmt::format("'{}' is not a percentage; write more than 0% and at most 100%, such as 60%", text));
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t bytes = 0;
  const int error = wire::read_size(text, &bytes);
  if (error == ERANGE)
    return refused<std::uint64_t>(fmt::format("'{}' is larger than any machine's memory", text));
  return error == 0 ? ok(bytes) : not_a_size(text);
}

Result<std::uint64_t> resolve_budget(std::string_view option, std::string_view text, const Ceiling& ceiling) {
  auto bytes = parse_budget(text, ceiling);
  if (!bytes) return refused<std::uint64_t>(fmt::format("{}: {}", option, bytes.error));
  if (*bytes < smallest_budget_bytes)
    return refused<std::uint64_t>(fmt::format("{} {} is {}; the smallest possible is {}", option, text,
                                              bytes_text(*bytes), bytes_text(smallest_budget_bytes)));
  if (*bytes > ceiling.bytes)
    return refused<std::uint64_t>(fmt::format("{} {} cannot be met: {} holds {}; ask for at most {}", option,
                                              text, ceiling.origin, bytes_text(ceiling.bytes),
                                              size_at_most(ceiling.bytes)));
  return bytes;
}

std::string exact_size(std::uint64_t bytes) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  return bytes % mib == 0 ? fmt::format("{}M", bytes / mib) : fmt::format("{}", bytes);
}

std::string size_at_most(std::uint64_t bytes) { return fmt::format("{}M", bytes >> 20); }

}  // namespace terrace::cli
