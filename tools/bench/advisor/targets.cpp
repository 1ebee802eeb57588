// The advisor's targets: 10% at the median for every predicted time, 3% of regret on every trace, and never
// more than 2% over moving everything raw. Of the parts that were measured.
#include <algorithm>

#include "tools/bench/advisor/parts.h"
#include "tools/bench/measuring/targets.h"

namespace terrace::bench {
namespace {

double worst(const nlohmann::json& traces, const char* field) {
  double largest = -1;
  for (const auto& [name, rows] : traces.items())
    for (const nlohmann::json& row : rows) largest = std::max(largest, row[field].get<double>());
  return largest;
}

}  // namespace

nlohmann::ordered_json judge_advisor(const nlohmann::json& report) {
  auto targets = nlohmann::ordered_json::array();
  const auto error = [&](const char* name, const nlohmann::json& value) {
    targets.push_back(at_most(std::string(name) + ", median error", value.get<double>(), 0.1));
  };
  if (report.contains("codecs")) {
    const nlohmann::json& all = report["codecs"]["all"];
    error("compress time predicted", all["compress_error"]);
    error("decompress time predicted", all["decompress_error"]);
    error("both and a link of 2 GB/s predicted", all["total_error"]);
  }
  if (report.contains("link")) {
    error("way out predicted", report["link"]["out_error"]);
    error("way back predicted", report["link"]["in_error"]);
  }
  if (report.contains("traces")) {
    targets.push_back(
        at_most("worst regret of a trace, link, schedule", worst(report["traces"], "regret"), 0.03));
    targets.push_back(at_most("worst time over raw's", worst(report["traces"], "against_raw"), 0.02));
  }
  return targets;
}

}  // namespace terrace::bench
