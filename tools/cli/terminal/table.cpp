#include "tools/cli/terminal/table.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "tools/cli/base/format.h"
#include "tools/cli/base/install_layout.h"
#include "tools/cli/base/nearest.h"
#include "tools/cli/terminal/column_texts.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

// By its name, or else by the heading that people read, in any case, if one column alone has it.
const Column* find(std::span<const Column> all, const std::string& word) {
  const auto by_name =
      std::find_if(all.begin(), all.end(), [&](const Column& column) { return word == column.name; });
  if (by_name != all.end()) return &*by_name;
  const auto has_heading = [&](const Column& column) {
    return strcasecmp(word.c_str(), column.heading) == 0;
  };
  if (word.empty() || std::count_if(all.begin(), all.end(), has_heading) != 1) return nullptr;
  return &*std::find_if(all.begin(), all.end(), has_heading);
}

std::vector<std::string> names_of(std::span<const Column> all) {
  std::vector<std::string> names;
  for (const Column& column : all) {
    names.emplace_back(column.name);
    names.emplace_back(column.heading);
    for (char& letter : names.back())
      letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return names;
}

bool has(const Columns& columns, const Column& column) {
  return std::any_of(columns.begin(), columns.end(),
                     [&](const Column& other) { return other.name == column.name; });
}

Columns shown_by_default(std::span<const Column> all) {
  Columns columns;
  std::copy_if(all.begin(), all.end(), std::back_inserter(columns),
               [](const Column& column) { return column.shown; });
  return columns;
}

std::string number_text(Kind kind, double value, bool exact_bytes) {
  if (kind == Kind::bytes) return bytes_text(static_cast<std::uint64_t>(std::max(value, 0.0)), exact_bytes);
  if (kind == Kind::speed) return number_text(Kind::bytes, value, exact_bytes) + "/s";
  if (kind == Kind::seconds) return duration_text(static_cast<std::uint64_t>(std::max(value, 0.0) * 1e9));
  if (kind == Kind::address) return fmt::format("{:#x}", static_cast<std::uint64_t>(value));
  return count_text(value);
}

std::string cell_text(const Column& column, const json& row, bool exact_bytes, bool rates) {
  const auto found = row.find(column.name);
  if (found == row.end() || found->is_null()) return column.kind == Kind::speed ? "-" : "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_boolean()) return found->get<bool>() ? "yes" : "no";
  if (!found->is_number()) return found->dump();
  if (column.kind == Kind::identity) return found->dump();
  // Addresses use all 64 bits, which a double does not have.
  if (column.kind == Kind::address) return fmt::format("{:#x}", found->get<std::uint64_t>());
  const double value = found->get<double>();
  if (!rates || !column.grows) return number_text(column.kind, value, exact_bytes);
  return column.kind == Kind::seconds ? percent_text(value)
                                      : number_text(column.kind, value, exact_bytes) + "/s";
}

// Code points, as far as our own units go ("µs" has two bytes and one column).
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string space(width > width_of(text) ? width - width_of(text) : 0, ' ');
  return left ? text + space : space + text;
}

using Cells = std::vector<std::vector<std::string>>;

Cells cells_of(const Columns& columns, const Rows& rows, const TableStyle& style, bool rates) {
  Cells cells;
  if (style.headings) {
    cells.emplace_back();
    for (const Column& column : columns) cells.back().emplace_back(column.heading);
  }
  for (const json& row : rows) {
    cells.emplace_back();
    for (const Column& column : columns)
      cells.back().push_back(cell_text(column, row, style.exact_bytes, rates));
  }
  return cells;
}

// Rows printed one by one under one heading still line up: numbers have room for the widest there is.
std::size_t column_width(const Column& column, const Cells& cells, std::size_t at) {
  std::size_t width = column.kind == Kind::text                                     ? 4
                      : column.kind == Kind::count || column.kind == Kind::identity ? 7
                                                                                    : 9;
  width = std::max(width, width_of(column.heading) + (column.grows ? 2 : 0));
  for (const auto& line : cells) width = std::max(width, width_of(line[at]));
  return width;
}

std::string without_trailing_space(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

Result<Columns> choose_columns(std::span<const Column> all, const std::vector<std::string>& wanted) {
  const bool adding =
      std::all_of(wanted.begin(), wanted.end(), [](const std::string& w) { return w.starts_with('+'); });
  Columns columns = adding ? shown_by_default(all) : Columns{};
  for (const std::string& word : wanted) {
    const std::string name = word.starts_with('+') ? word.substr(1) : word;
    const Column* column = find(all, name);
    if (column == nullptr)
      return refused<Columns>(
          fmt::format("-o: no column has the name or the heading '{}'{} '-o help' lists them", name,
                      did_you_mean(name, names_of(all))));
    if (!has(columns, *column)) columns.push_back(*column);
  }
  return ok(std::move(columns));
}

std::string list_columns(std::span<const Column> all) {
  std::string text;
  std::size_t width = 22;
  for (const Column& column : all) width = std::max(width, std::string_view(column.name).size());
  for (const Column& column : all)
    text += fmt::format("{} {:<{}} {:<10} {}\n", column.shown ? '*' : ' ', column.name, width, column.heading,
                        about_column(column.name, column.heading));
  const auto words = InstallLayout::of_this_program().share("statistics.md");
  text += "* shown without -o" + (words ? "; what the words mean: " + words->string() : "") + "\n";
  return text;
}

std::string render(const Columns& columns, const Rows& rows, const TableStyle& style, bool rates) {
  const Cells cells = cells_of(columns, rows, style, rates);
  std::string text;
  for (const auto& line : cells) {
    std::string out;
    for (std::size_t i = 0; i < columns.size(); ++i)
      out += (i == 0 ? "" : "  ") +
             padded(line[i], column_width(columns[i], cells, i), columns[i].kind == Kind::text);
    text += without_trailing_space(std::move(out)) + "\n";
  }
  return text;
}

json rates_of(std::span<const Column> all, const json& before, const json& now, double seconds) {
  json out = now;
  for (const Column& column : all) {
    const auto value = now.find(column.name);
    if (!column.grows || value == now.end() || !value->is_number()) continue;
    const double earlier = before.value(column.name, 0.0);
    const double grown = value->get<double>() - (value->get<double>() < earlier ? 0 : earlier);
    out[column.name] = seconds > 0 ? grown / seconds : 0;
  }
  return out;
}

}  // namespace terrace::cli
