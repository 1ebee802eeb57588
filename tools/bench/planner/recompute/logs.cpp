#include "tools/bench/planner/recompute/logs.h"

#include <cmath>
#include <utility>

#include "daemon/planner/trace_json.h"

namespace terrace::bench {
namespace {

constexpr double peaks_agree_from = 0.999;  // our peak over the log's

const std::map<std::string, std::string>& names_in_simrd() {
  static const std::map<std::string, std::string> names = {
      {"DTR", "h_DTR"}, {"DTREqClass", "h_DTR-eq"},   {"DTRLocal", "h_DTR-local"},
      {"LRU", "h_LRU"}, {"LargestStorage", "h_size"}, {"MSPS", "h_MSPS"}};
  return names;
}

std::string log_of(const PlannerOptions& options, const std::string& model) {
  for (const std::string& file : data_files(options, "dtr", ".json.gz"))
    if (file.starts_with("dtr/" + model + "-")) return file;
  return {};
}

}  // namespace

bool SimrdLog::peaks_agree() const { return std::abs(peak - 1) <= 1 - peaks_agree_from; }

std::map<double, std::uint64_t, std::greater<>> SimrdLog::budgets() const {
  std::map<double, std::uint64_t, std::greater<>> budgets;
  for (const Json& point : points) budgets[point["ratio"]] = point["budget"];
  return budgets;
}

const Json* SimrdLog::point(std::string_view our_heuristic, double ratio) const {
  for (const Json& point : points)
    if (names_in_simrd().at(point["heuristic"]) == our_heuristic && point["ratio"] == ratio) return &point;
  return nullptr;
}

std::vector<SimrdLog> simrd_logs(const PlannerOptions& options, const std::string& reference) {
  std::map<std::string, std::vector<Json>> points;
  const Json parsed = Json::parse(reference);
  for (const Json& point : parsed["results"]) points[point["model"]].push_back(point);
  std::vector<SimrdLog> logs;
  for (auto& [model, of_model] : points) {
    const std::string file = log_of(options, model);
    const auto trace = file.empty() ? Result<wire::Trace>{} : planner::parse_trace(*data_file(options, file));
    if (!trace) continue;
    auto step = planner::recompute::step_of(*trace);
    if (!step) continue;
    SimrdLog log{model, std::move(*step), std::move(of_model)};
    log.peak = static_cast<double>(peak_bytes_of(log.step)) / log.points[0]["baseline"]["mem"].get<double>();
    logs.push_back(std::move(log));
  }
  return logs;
}

}  // namespace terrace::bench
