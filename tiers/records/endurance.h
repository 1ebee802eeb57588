// What was written to a drive, today and ever, and by whom: the record in docs/formats/endurance.md. Pure.
//
// Days are UTC, counted from 1970-01-01. Whoever counts charges before it writes, so that one that is killed
// leaves the count too high, never too low.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::records {

using UserBytes = std::map<std::uint32_t, std::uint64_t>;

struct Endurance {
  std::uint64_t day = 0;
  std::uint64_t total_bytes = 0;  // since counting began; at least today's
  UserBytes today;                // by user

  std::uint64_t today_bytes() const;
  // Begins the day that it is now, if that is another one. A clock that goes back a day does not make today's
  // bytes disappear; a record of the day after tomorrow or later was made by a clock that was wrong, and what
  // it counted is today's: else no day would begin until then.
  void begin_day(std::uint64_t now_day);
  // Today's bytes of a user, and the total with them. What there is no number for is not counted.
  void charge(std::uint32_t user, std::uint64_t bytes);
  // Of what he was charged with today.
  void give_back(std::uint32_t user, std::uint64_t bytes);

  friend bool operator==(const Endurance&, const Endurance&) = default;
};

inline constexpr std::uint64_t most_written_bytes = std::uint64_t{1} << 62;  // more no drive has taken
// Of a record. Further users are counted together, under the number that is nobody's.
inline constexpr std::size_t most_writers = 1024;
inline constexpr std::uint32_t nobody = 0xffffffff;

std::size_t most_endurance_bytes();
std::string encode_endurance(const Endurance& written);
// Of bytes that may be anything; nothing if they are not what encode_endurance() makes.
std::optional<Endurance> decode_endurance(std::string_view bytes);

// The day that the system's clock says.
std::uint64_t day_of_clock();

}  // namespace terrace::records
