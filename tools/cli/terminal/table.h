// Rows of named values as columns of text: what `jobs`, `tiers` and `events` print, and what `-o` chooses
// from.
//
// A row is a flat JSON object; a column names one of its members. Members that are absent stay empty in the
// table: an unknown value is never a zero.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "liballoc/wire/result.h"

namespace terrace::cli {

// identity: a number that is a name. speed: bytes a second, "-" where nothing was measured.
enum class Kind { text, identity, count, bytes, speed, seconds, address };

struct Column {
  const char* name;  // of the member, and for -o
  const char* heading;
  Kind kind;
  bool grows = false;  // counts up since the start: watched, it becomes a rate
  bool shown = true;   // without -o
};

using Columns = std::vector<Column>;
using Rows = std::vector<nlohmann::json>;

// "+a" adds a to what is shown by default, "a" and "b" select exactly those. A column goes by its name, or by
// its heading in upper or lower case where no other has the same.
Result<Columns> choose_columns(std::span<const Column> all, const std::vector<std::string>& wanted);

// Name, heading and meaning of each, for `-o help`.
std::string list_columns(std::span<const Column> all);

struct TableStyle {
  bool exact_bytes = false;
  bool headings = true;
};

// Lines with aligned columns; text to the left, numbers to the right. `rates` prints growing columns as "…/s"
// (and seconds per second as a percentage).
std::string render(const Columns& columns, const Rows& rows, const TableStyle& style, bool rates = false);

// `now` with every growing column replaced by what it grew a second since `before`; a counter that went back
// (another daemon) starts over.
nlohmann::json rates_of(std::span<const Column> all, const nlohmann::json& before, const nlohmann::json& now,
                        double seconds);

}  // namespace terrace::cli
