// DTR on its authors' own logs, beside what their simulator says at the same budgets in bytes.
#include "daemon/planner/recompute/dtr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "daemon/planner/trace_json.h"
#include "tools/bench/planner_parts.h"

namespace terrace::bench {
namespace {

namespace recompute = planner::recompute;

constexpr const char* title = "Recomputation as DTR does it, beside simrd at the same budgets in bytes";
constexpr double close_enough = 0.02;       // of simrd's overhead
constexpr double peaks_agree_from = 0.999;  // our peak over the log's

const std::map<std::string, std::string>& names_in_simrd() {
  static const std::map<std::string, std::string> names = {
      {"DTR", "h_DTR"}, {"DTREqClass", "h_DTR-eq"},   {"DTRLocal", "h_DTR-local"},
      {"LRU", "h_LRU"}, {"LargestStorage", "h_size"}, {"MSPS", "h_MSPS"}};
  return names;
}

struct Agreement {
  std::uint32_t points = 0, within = 0, other_outcome = 0;
};

recompute::HeuristicKind kind_of(std::string_view name) {
  const auto& all = recompute::dtr_heuristics();
  return std::find_if(all.begin(), all.end(), [&](const auto& h) { return h.name == name; })->kind;
}

const char* name_of(recompute::DtrOutcome outcome) {
  switch (outcome) {
    case recompute::DtrOutcome::finished:
      return "";
    case recompute::DtrOutcome::out_of_memory:
      return "out of memory";
    case recompute::DtrOutcome::thrashing:
      break;
  }
  return "thrashing";
}

// Ours, as "overhead" or as "outcome".
Json measured(const recompute::Step& step, std::string_view heuristic, std::uint64_t budget_bytes) {
  const recompute::DtrReport report =
      run_dtr(step, {.heuristic = kind_of(heuristic), .budget_bytes = budget_bytes});
  Json row;
  if (report.outcome != recompute::DtrOutcome::finished) return {{"outcome", name_of(report.outcome)}};
  const recompute::Price price = check_schedule(step, report.schedule, budget_bytes);
  if (!price.wrong.empty() || price.cost_ns != report.cost_ns)
    return {{"outcome", "not valid: " + price.wrong}};
  row["overhead"] = static_cast<double>(price.cost_ns) / static_cast<double>(step.cost_ns);
  row["evictions"] = report.evictions;
  row["again"] = price.recomputations;
  return row;
}

void compare(const Json& point, bool peaks_agree, Json* row, Agreement* agreement) {
  const bool theirs = point["status"] == "ok";
  const bool ours = row->contains("overhead");
  if (theirs) (*row)["simrd"] = point["overhead"];
  if (!theirs && row->value("outcome", "").empty()) (*row)["outcome"] = "";
  if (!theirs) (*row)["simrd_outcome"] = point["status"] == "OOM" ? "out of memory" : "thrashing";
  bool within = theirs == ours;
  if (theirs && ours) {
    const double off = (*row)["overhead"].get<double>() / point["overhead"].get<double>() - 1;
    (*row)["off"] = 100 * off;
    within = std::abs(off) <= close_enough;
  }
  if (!peaks_agree) return;
  (*row)["met"] = within;
  ++agreement->points;
  agreement->within += within ? 1 : 0;
  agreement->other_outcome += theirs != ours ? 1 : 0;
}

std::string log_of(const PlannerOptions& options, const std::string& model) {
  for (const std::string& file : data_files(options, "dtr", ".json.gz"))
    if (file.starts_with("dtr/" + model + "-")) return file;
  return {};
}

void add_log(const PlannerOptions& options, const std::string& model, const std::vector<Json>& points,
             Json* out, Agreement* agreement) {
  const std::string file = log_of(options, model);
  const auto trace = file.empty() ? Result<wire::Trace>{} : planner::parse_trace(*data_file(options, file));
  if (!trace) return;
  const auto step = recompute::step_of(*trace);
  if (!step) return;
  const double peak = static_cast<double>(peak_bytes_of(*step)) / points[0]["baseline"]["mem"].get<double>();
  const bool agrees = std::abs(peak - 1) <= 1 - peaks_agree_from;
  for (const Json& point : points) {
    const std::string heuristic = names_in_simrd().at(point["heuristic"]);
    Json row{{"log", model}, {"peak", peak}, {"ratio", point["ratio"]}, {"heuristic", heuristic}};
    row.update(measured(*step, heuristic, point["budget"].get<std::uint64_t>()));
    compare(point, agrees, &row, agreement);
    (*out)["rows"].push_back(std::move(row));
  }
}

}  // namespace

Json measure_recompute(const PlannerOptions& options) {
  const auto text = data_file(options, "dtr/simrd_reference.json");
  if (!text) return skipped(title, "no dtr/simrd_reference.json in the data");
  std::map<std::string, std::vector<Json>> points;
  const Json reference = Json::parse(*text);
  for (const Json& point : reference["results"]) points[point["model"]].push_back(point);
  Json out = section(title, {column("log", "log", "text"), column("peak", "peak over simrd's", "ratio"),
                             column("ratio", "budget", "ratio"), column("heuristic", "heuristic", "text"),
                             column("overhead", "cost", "ratio"), column("outcome", "", "text"),
                             column("simrd", "simrd's cost", "ratio"), column("simrd_outcome", "", "text"),
                             column("off", "off", "percent"), column("evictions", "evictions", "count"),
                             column("again", "recomputations", "count"), column("met", "within 2%", "yes")});
  Agreement agreement;
  for (const auto& [model, of_model] : points) add_log(options, model, of_model, &out, &agreement);
  out["notes"] = {
      fmt::format("{} of {} points agree within 2% on the logs whose peaks agree; at {} one of the two "
                  "gave up and the other did not",
                  agreement.within, agreement.points, agreement.other_outcome)};
  return out;
}

}  // namespace terrace::bench
