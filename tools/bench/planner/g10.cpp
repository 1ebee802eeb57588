// G10's five workloads: what follows from the traces alone, and the published times of its policies beside
// ours under its own rules.
#include <cmath>
#include <sstream>

#include "daemon/planner/trace_json.h"
#include "tools/bench/planner/parts.h"

namespace terrace::bench {
namespace {

constexpr const char* g10_title = "What G10's traces add up to";

struct Published {
  std::string ideal_s, peak_bytes;  // as summary.csv writes them
};

// By "net-batch".
std::optional<Published> published(const std::string& summary, const std::string& workload) {
  std::istringstream lines(summary);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, ',');) cells.push_back(part);
    if (cells.size() > 6 && cells[0] + "-" + cells[1] == workload) return Published{cells[5], cells[6]};
  }
  return std::nullopt;
}

// With as many digits as `like` has behind its point.
std::string rounded_like(double value, const std::string& like) {
  const std::size_t point = like.find('.');
  char text[64];
  std::snprintf(text, sizeof text, "%.*f",
                point == std::string::npos ? 0 : static_cast<int>(like.size() - point - 1), value);
  return text;
}

Json trace_row(const std::string& workload, const wire::Trace& trace, const Published& known) {
  double sum_us = 0;
  for (const wire::TraceOp& op : trace.ops) sum_us += op.time_us;
  const std::uint64_t peak = planner::max_live_bytes(planner::instance_of(trace).buffers);
  const std::string ideal = rounded_like(sum_us / 1e6, known.ideal_s);
  return {{"workload", workload},
          {"ideal", ideal},
          {"published_ideal", known.ideal_s},
          {"peak_bytes", std::to_string(peak)},
          {"published_peak_bytes", known.peak_bytes},
          {"met", ideal == known.ideal_s && std::to_string(peak) == known.peak_bytes}};
}

}  // namespace

Json measure_g10(const PlannerOptions& options) {
  const auto summary = data_file(options, "g10/summary.csv");
  if (!summary) return skipped(g10_title, "no g10/summary.csv in the data");
  Json out =
      section(g10_title,
              {column("workload", "workload", "text"), column("ideal", "sum of operations, s", "count"),
               column("published_ideal", "published", "count"), column("peak_bytes", "peak, bytes", "count"),
               column("published_peak_bytes", "published", "count"), column("met", "met", "yes")});
  for (const std::string& file : data_files(options, "g10", ".json.gz")) {
    const std::string workload = file.substr(4, file.size() - 4 - 8);
    const auto trace = planner::parse_trace(*data_file(options, file));
    const auto known = published(*summary, workload);
    if (trace && known) out["rows"].push_back(trace_row(workload, *trace, *known));
  }
  return out;
}

}  // namespace terrace::bench
