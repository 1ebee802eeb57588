#include "liballoc/wire/amount.h"

namespace terrace::wire {

namespace {

std::string quoted(std::string_view text) { return std::string(1, '\'').append(text).append(1, '\''); }

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t bytes = 0;
  const int error = read_size(text, &bytes);
  if (error == 0) return ok(bytes);
  if (error == ERANGE)
    return refused<std::uint64_t>(quoted(text) +
                                  " is larger than any machine's memory; the largest is 4194303T");
  return refused<std::uint64_t>(quoted(text) + " is not a size; write " + size_grammar);
}

Result<Amount> parse_amount(std::string_view text) {
  if (!text.ends_with('%')) {
    const auto bytes = parse_size(text);
    return bytes ? ok(Amount{Amount::Unit::bytes, *bytes})
                 : refused<Amount>(bytes.error + ", or a percentage of " + percent_grammar);
  }
  std::uint64_t share = 0;
  if (read_percent(text, &share) == 0) return ok(Amount{Amount::Unit::percent, share});
  return refused<Amount>(quoted(text) + " is not a percentage; write " + percent_grammar);
}

std::string text_of(const Amount& amount) {
  if (amount.unit == Amount::Unit::bytes) return std::to_string(amount.value) + "B";
  std::string text = std::to_string(amount.value / Decimal::finest);
  const std::string part = std::to_string(amount.value % Decimal::finest + Decimal::finest).substr(1);
  const std::size_t digits = part.find_last_not_of('0') + 1;
  if (digits != 0) text.append(1, '.').append(part, 0, digits);
  return text.append(1, '%');
}

}  // namespace terrace::wire
