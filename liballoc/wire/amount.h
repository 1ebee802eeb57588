// What people write as an amount of memory, read with a sentence for an error: it names the input and what is
// accepted. For the command line and the daemon; the library inside a job reads with size.h alone, as it may
// not allocate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "liballoc/wire/result.h"
#include "liballoc/wire/size.h"

namespace terrace::wire {

// A size, or a part of something.
struct Amount {
  enum class Unit { bytes, percent };
  Unit unit = Unit::bytes;
  std::uint64_t value = 0;  // bytes, or a share as read_percent() gives it

  static constexpr Amount percent(std::uint64_t hundredths) {
    return {Unit::percent, hundredths * Decimal::finest};
  }
  constexpr std::uint64_t of(std::uint64_t whole) const noexcept {
    return unit == Unit::bytes ? value : share_of(whole, value);
  }
  friend bool operator==(const Amount&, const Amount&) = default;
};

// "2G"; refused with "'2X' is not a size; write …".
Result<std::uint64_t> parse_size(std::string_view text);
// "2G" or "60.5%".
Result<Amount> parse_amount(std::string_view text);
// What parse_amount() reads back as the same: "60.5%", "1048576B".
std::string text_of(const Amount& amount);

}  // namespace terrace::wire
