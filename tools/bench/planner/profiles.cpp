// Traces made on this machine from three networks of torchvision, held against the steps that nobody watched.
#include <cmath>

#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/parts.h"
#include "tools/cli/base/install_layout.h"

namespace terrace::bench {
namespace {

constexpr const char* profiles_title =
    "Profiles of training steps on this machine against the steps themselves";
// Debian's interpreter, which has Debian's torch; another one may come first in PATH.
constexpr const char* python = "/usr/bin/python3";
constexpr double most_apart_from_steps = 0.05;

bool has_torchvision() {
  const std::string answer = run_captured(
      {"sh", "-c", std::string(python) + " -c 'import torchvision' >/dev/null 2>&1 && echo yes || echo no"},
      {});
  return answer == "yes\n";
}

Json row_of(const Json& measured) {
  const double time = measured["trace_ms"].get<double>() / measured["step_ms"].get<double>();
  const double peak =
      measured["trace_step_peak_bytes"].get<double>() / measured["measured_step_peak_bytes"].get<double>();
  Json row = measured;
  row["time_ratio"] = time;
  row["peak_ratio"] = peak;
  row["met"] = std::abs(time - 1) <= most_apart_from_steps && std::abs(peak - 1) <= most_apart_from_steps;
  return row;
}

}  // namespace

Json measure_profiles(const PlannerOptions& options) {
  const auto script = cli::InstallLayout::of_this_program().share("profile/agreement.py");
  if (!script) return skipped(profiles_title, script.error);
  if (!has_torchvision()) return skipped(profiles_title, "/usr/bin/python3 has no torchvision");
  const Json measured = Json::parse(
      run_captured({python, script->string(), "--json", "--steps", options.quick ? "2" : "7"}, {}));
  Json out = section(profiles_title,
                     {column("model", "network", "text"), column("operations", "operations", "count"),
                      column("step_ms", "step, ms", "ms"), column("trace_ms", "trace, ms", "ms"),
                      column("time_ratio", "ratio", "ratio"),
                      column("measured_step_peak_bytes", "allocated at most", "bytes"),
                      column("trace_step_peak_bytes", "trace says", "bytes"),
                      column("peak_ratio", "ratio", "ratio"), column("met", "met", "yes")});
  for (const Json& row : measured["rows"]) out["rows"].push_back(row_of(row));
  out["notes"] = {"torch " + measured["torch"].get<std::string>()};
  return out;
}

}  // namespace terrace::bench
