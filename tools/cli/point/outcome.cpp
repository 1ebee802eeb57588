#include "tools/cli/point/outcome.h"

#include <fmt/format.h>

#include "tools/cli/base/format.h"
#include "tools/cli/base/json_numbers.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

std::string step_time_text(double seconds) {
  return duration_text(static_cast<std::uint64_t>(seconds * 1e9));
}

std::string moved_size_text(const json& outcome, const char* name) {
  return bytes_text(static_cast<std::uint64_t>(number(outcome, name)));
}

}  // namespace

json outcome_json(const PlanPoint& point, const json& counters) {
  json out{{"policy", point.policy},
           {"budget_bytes", point.budget_bytes},
           {"predicted_step_seconds", point.step_us / 1e6},
           {"predicted_moved_bytes", point.moved_bytes}};
  const std::uint64_t steps = whole(counters, "steps");
  if (steps == 0) return out;
  const auto count = static_cast<double>(steps);
  const double step_seconds = number(counters, "steps_ns") / 1e9 / count;
  out["steps"] = steps;
  out["step_seconds"] = step_seconds;
  out["step_error"] = step_seconds / (point.step_us / 1e6) - 1;
  out["moved_bytes"] = (number(counters, "written_bytes") + number(counters, "read_bytes")) / count;
  return out;
}

std::string outcome_text(const PlanPoint& point, const std::optional<std::uint64_t>& budget_bytes,
                         const json& counters) {
  const json outcome = outcome_json(point, counters);
  std::string text = fmt::format("  plan     a step was to take {} and move {}",
                                 step_time_text(number(outcome, "predicted_step_seconds")),
                                 moved_size_text(outcome, "predicted_moved_bytes"));
  text += outcome.contains("steps")
              ? fmt::format("; it took {} ({:+.1f}%) and moved {}\n",
                            step_time_text(number(outcome, "step_seconds")),
                            100 * number(outcome, "step_error"), moved_size_text(outcome, "moved_bytes"))
              : "; no step was seen, so that there is nothing to compare\n";
  if (budget_bytes && *budget_bytes != point.budget_bytes)
    text += fmt::format("           that was for a budget of {}, and the job had {}\n",
                        bytes_text(point.budget_bytes), bytes_text(*budget_bytes));
  return text;
}

}  // namespace terrace::cli
