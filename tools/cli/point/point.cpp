#include "tools/cli/point/point.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/planner/json_line.h"
#include "tools/cli/base/json_numbers.h"
#include "tools/cli/base/text_files.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr int point_version = 1;
constexpr double longest_step_us = 1e12;  // twelve days
constexpr std::size_t most_name_bytes = 256;

constexpr const char* how_to_make_one =
    "'terrace plan --job JOB --budget-curve --point SIZE --out FILE' writes one";

Result<PlanPoint> no_point(const std::string& what) {
  return refused<PlanPoint>(fmt::format("{}; {}", what, how_to_make_one));
}

// A name for people, from a file that may hold anything: short and printable, or not known.
std::string name_in(const json& object, const char* member) {
  const auto found = object.find(member);
  if (found == object.end() || !found->is_string()) return "";
  std::string name = found->get<std::string>();
  if (name.size() > most_name_bytes) return "";
  for (char& c : name)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  return name;
}

bool is_within(double value, double least, double most) { return value >= least && value <= most; }

std::string wrong_number(const PlanPoint& point) {
  if (point.budget_bytes == 0) return "'budget_bytes' is no number of bytes above 0";
  if (point.step_us <= 0 || !is_within(point.step_us, 0, longest_step_us))
    return "'step_us' is no number of microseconds above 0";
  if (!is_within(point.compute_us, 0, longest_step_us)) return "'compute_us' is no number of microseconds";
  if (!is_within(point.moved_bytes, 0, 1e18)) return "'moved_bytes' is no number of bytes";
  return "";
}

}  // namespace

std::string point_json(const PlanPoint& point) {
  nlohmann::ordered_json out{{"format", point_format},         {"version", point_version},
                             {"trace", point.trace},           {"machine", point.machine},
                             {"policy", point.policy},         {"budget_bytes", point.budget_bytes},
                             {"live_bytes", point.live_bytes}, {"step_us", point.step_us},
                             {"compute_us", point.compute_us}, {"moved_bytes", point.moved_bytes}};
  if (!point.program.empty()) out["program"] = point.program;
  return planner::json_lines(out, 1) + "\n";
}

Result<PlanPoint> parse_point(const std::string& text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return no_point("this is no point of a budget curve, and no JSON object");
  const std::string format = name_in(document, "format");
  if (format != point_format)
    return no_point(format.empty() ? "this is no point of a budget curve: it has no 'format'"
                                   : fmt::format("this is a {}, no point of a budget curve", format));
  if (whole(document, "version") != point_version)
    return no_point(fmt::format("its version is {}, and this command reads {}",
                                document.contains("version") ? document.at("version").dump() : "missing",
                                point_version));
  PlanPoint point{
      name_in(document, "trace"),   name_in(document, "machine"),    name_in(document, "policy"),
      name_in(document, "program"), whole(document, "budget_bytes"), whole(document, "live_bytes"),
      number(document, "step_us"),  number(document, "compute_us"),  number(document, "moved_bytes")};
  if (const std::string wrong = wrong_number(point); !wrong.empty()) return no_point(wrong);
  return ok(std::move(point));
}

Result<PlanPoint> load_point(const std::string& path) {
  const Loaded<std::string> text = load_text(path);
  if (!text.result) return refused<PlanPoint>(text.result.error);
  auto point = parse_point(*text.result);
  if (!point) return refused<PlanPoint>(fmt::format("{}: {}", path, point.error));
  return point;
}

}  // namespace terrace::cli
