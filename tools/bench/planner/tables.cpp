#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/planner/parts.h"
#include "tools/cli/base/format.h"

namespace terrace::bench {
namespace {

using Line = std::vector<std::string>;

std::string number_text(double value, const std::string& unit) {
  if (unit == "bytes") return cli::bytes_text(static_cast<std::uint64_t>(value));
  if (unit == "s") return fmt::format("{:.3f}", value);
  if (unit == "ms") return fmt::format("{:.2f}", value);
  if (unit == "ratio") return fmt::format("{:.4f}", value);
  if (unit == "percent") return fmt::format("{:.3f}%", 100 * value);
  return fmt::format("{:.0f}", value);
}

std::string cell(const Json& row, const Json& column) {
  const auto found = row.find(column["key"].get<std::string>());
  if (found == row.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_boolean()) return found->get<bool>() ? "yes" : "NO";
  return number_text(found->get<double>(), column["unit"].get<std::string>());
}

std::vector<Line> lines_of(const Json& section) {
  std::vector<Line> lines(1);
  for (const Json& column : section["columns"]) lines[0].push_back(column["heading"]);
  for (const Json& row : section["rows"]) {
    lines.emplace_back();
    for (const Json& column : section["columns"]) lines.back().push_back(cell(row, column));
  }
  return lines;
}

bool to_the_left(const Json& section, std::size_t at) {
  return section["columns"][at]["unit"] == "text" || section["columns"][at]["unit"] == "yes";
}

std::string notes_of(const Json& section, const char* before) {
  std::string text;
  for (const Json& note : section.value("notes", Json::array()))
    text += before + note.get<std::string>() + "\n";
  return text;
}

std::string text_line(const Json& section, const Line& line, const std::vector<std::size_t>& widths) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i)
    text += to_the_left(section, i) ? fmt::format("  {:<{}}", line[i], widths[i])
                                    : fmt::format("  {:>{}}", line[i], widths[i]);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string markdown_line(const Line& line) { return fmt::format("| {} |\n", fmt::join(line, " | ")); }

}  // namespace

void add_slowdown(Json* row, const planner::SimulationReport& report, double bound_us) {
  (*row)["slowdown"] = report.total_us / report.bounds.compute_us;
  (*row)["bound"] = bound_us / report.bounds.compute_us;
  (*row)["to_bound"] = report.total_us / bound_us;
}

Json column(const char* key, const char* heading, const char* unit) {
  return {{"key", key}, {"heading", heading}, {"unit", unit}};
}

Json section(const char* title, std::vector<Json> columns) {
  return {{"title", title}, {"columns", std::move(columns)}, {"rows", Json::array()}};
}

Json skipped(const char* title, const std::string& why) {
  Json out = section(title, {});
  out["skipped"] = why;
  return out;
}

std::string as_text(const Json& section) {
  std::string text = "\n";
  text.append(section["title"].get<std::string>()).append("\n");
  if (section.contains("skipped")) return text + "  SKIP: " + section["skipped"].get<std::string>() + "\n";
  const std::vector<Line> lines = lines_of(section);
  std::vector<std::size_t> widths(lines[0].size());
  for (const Line& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const Line& line : lines) text += text_line(section, line, widths);
  return text + notes_of(section, "  ");
}

std::string as_markdown(const Json& section) {
  std::string text = fmt::format("\n### {}\n\n", section["title"].get<std::string>());
  if (section.contains("skipped")) return text + "Skipped: " + section["skipped"].get<std::string>() + "\n";
  const std::vector<Line> lines = lines_of(section);
  Line rule;
  for (std::size_t i = 0; i < lines[0].size(); ++i)
    rule.emplace_back(to_the_left(section, i) ? "---" : "---:");
  text += markdown_line(lines[0]) + markdown_line(rule);
  for (std::size_t i = 1; i < lines.size(); ++i) text += markdown_line(lines[i]);
  const std::string notes = notes_of(section, "");
  return notes.empty() ? text : text.append("\n").append(notes);
}

}  // namespace terrace::bench
