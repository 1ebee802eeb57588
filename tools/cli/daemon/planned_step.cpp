#include "tools/cli/daemon/planned_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/base/format.h"
#include "tools/cli/base/json_numbers.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr std::size_t most_tiers = 16;
constexpr double least_stall = 0.01;  // a share of the time: below, nothing is worth a cause

std::string text_in(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::uint64_t> peaks_in(const json& plan) {
  std::vector<std::uint64_t> peaks;
  const auto found = plan.find("tier_peak_bytes");
  if (found == plan.end() || !found->is_array()) return peaks;
  for (const json& bytes : *found) {
    const bool is_size =
        bytes.is_number_integer() && (bytes.is_number_unsigned() || bytes.get<std::int64_t>() >= 0);
    if (is_size && peaks.size() < most_tiers) peaks.push_back(bytes.get<std::uint64_t>());
  }
  return peaks;
}

// "g10 planned a step of 2.05 s, and it takes 2.31 s (+12.7%)".
std::string plan_text(const PlannedStep& planned, double step_seconds) {
  const std::string who = planned.policy.empty() ? "the daemon" : planned.policy;
  if (planned.entries == 0)
    return planned.reason.empty() ? fmt::format("{} plans nothing", who) : "not planned: " + planned.reason;
  if (planned.step_seconds <= 0) return fmt::format("{} planned {} moves a step", who, planned.entries);
  std::string text = fmt::format("{} planned a step of {:.3g} s", who, planned.step_seconds);
  if (step_seconds > 0)
    text += fmt::format(", and one takes {:.3g} s ({:+.1f}%)", step_seconds,
                        100 * (step_seconds / planned.step_seconds - 1));
  return text;
}

// The words for what waits most, and what may be done about it.
std::string slowest(const SlowStep& slow) {
  const double most = std::max({slow.late_seconds, slow.unplanned_seconds, slow.room_seconds});
  if (most == slow.late_seconds) return "planned reads that came late: the drive is slower than planned";
  if (most == slow.unplanned_seconds) return "faults that no plan foresaw";
  return "room: old data leaves too slowly";
}

}  // namespace

PlannedStep planned_step_of(const json& process) {
  PlannedStep planned{text_in(process, "policy"), text_in(process, "plan_refusal"), 0, 0, 0, 0, {}};
  const auto plan = process.is_object() ? process.find("plan") : process.end();
  if (plan == process.end() || !plan->is_object()) return planned;
  planned.phase = whole(*plan, "phase");
  planned.entries = whole(*plan, "entries");
  planned.step_seconds = std::max(number(*plan, "predicted_step_seconds"), 0.0);
  planned.budget_bytes = whole(*plan, "budget_bytes");
  planned.tier_peak_bytes = peaks_in(*plan);
  return planned;
}

PlannedStep planned_step_of_job(const json& processes) {
  PlannedStep best;
  for (const json& process : processes) {
    PlannedStep planned = planned_step_of(process);
    if (planned.entries != 0) return planned;
    if (!best.is_told()) best = std::move(planned);
  }
  return best;
}

SlowStep slow_step(const json& rates, const StallCauses& causes, bool complete) {
  const double late = number(rates, "planned_late"), unplanned = number(rates, "unplanned_faults");
  const double known = causes.known_seconds();
  const double late_share = late + unplanned > 0 ? late / (late + unplanned) : 0;
  const double room = complete ? std::max(number(rates, "stall_seconds") - known, 0.0) : 0;
  return {known * late_share, known * (1 - late_share), room};
}

std::string planned_text(const json& rates, const StallCauses& causes, bool complete) {
  const PlannedStep planned = planned_step_of(rates);
  if (!planned.is_told()) return "";
  std::string text = plan_text(planned, number(rates, "step_seconds"));
  const double stall = number(rates, "stall_seconds");
  if (planned.entries == 0 || stall < least_stall || causes.is_hidden) return text;
  const SlowStep slow = slow_step(rates, causes, complete);
  return text + fmt::format("; it waits mostly for {} (late {}/s, not planned {}/s, for room {} of the time)",
                            slowest(slow), count_text(number(rates, "planned_late")),
                            count_text(number(rates, "unplanned_faults")), percent_text(slow.room_seconds));
}

std::string plan_line(const json& row) {
  if (!row.contains("predicted_step_seconds")) return "";
  std::string text = fmt::format("plan    {}: predicted {:.3g} s", row.value("job", "?"),
                                 number(row, "predicted_step_seconds"));
  if (row.contains("measured_step_seconds"))
    text += fmt::format(", measured {:.3g} s", number(row, "measured_step_seconds"));
  return text + fmt::format(" a step ({}, {} moves)\n", row.value("policy", "?"), whole(row, "plan_entries"));
}

}  // namespace terrace::cli
