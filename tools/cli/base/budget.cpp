#include "tools/cli/base/budget.h"

#include <fmt/format.h>

#include <charconv>

#include "liballoc/wire/protocol.h"
#include "tools/cli/base/format.h"

namespace terrace::cli {

Result<std::uint64_t> resolve_budget(std::string_view option, std::string_view text, const Ceiling& ceiling,
                                     std::uint64_t least_bytes) {
  const auto amount = parse_amount(text);
  if (!amount) return refused<std::uint64_t>(fmt::format("{}: {}", option, amount.error));
  auto bytes = ok(amount->of(ceiling.bytes));
  if (*bytes < least_bytes)
    return refused<std::uint64_t>(fmt::format("{} {} is {}; the smallest possible is {}", option, text,
                                              bytes_text(*bytes), bytes_text(least_bytes)));
  if (*bytes > ceiling.bytes)
    return refused<std::uint64_t>(fmt::format("{} {} cannot be met: {} holds {}; ask for at most {}", option,
                                              text, ceiling.origin, bytes_text(ceiling.bytes),
                                              size_at_most(ceiling.bytes)));
  return bytes;
}

Result<unsigned> parse_weight(const std::string& text) {
  unsigned weight = 0;
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), weight);
  const bool is_number = failed == std::errc() && stop == text.data() + text.size();
  if (is_number && weight >= 1 && weight <= wire::most_weight) return ok(weight);
  return refused<unsigned>(
      fmt::format("--weight: \"{}\" is not a whole number from 1 to {}", text, wire::most_weight));
}

std::string exact_size(std::uint64_t bytes) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  return bytes % mib == 0 ? fmt::format("{}M", bytes / mib) : fmt::format("{}", bytes);
}

std::string size_at_most(std::uint64_t bytes) { return fmt::format("{}M", bytes >> 20); }

}  // namespace terrace::cli
