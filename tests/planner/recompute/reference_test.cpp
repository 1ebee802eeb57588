// DTR's authors' logs, beside the figures of their simulator at the same budgets in bytes.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/planner/recompute/dtr/dtr.h"
#include "daemon/planner/recompute/static/policies.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::recompute {
namespace {

using nlohmann::json;

const std::map<std::string, HeuristicKind> kinds = {{"DTR", HeuristicKind::dtr},
                                                    {"DTREqClass", HeuristicKind::dtr_eq},
                                                    {"DTRLocal", HeuristicKind::dtr_local},
                                                    {"LRU", HeuristicKind::lru},
                                                    {"LargestStorage", HeuristicKind::size},
                                                    {"MSPS", HeuristicKind::msps}};

bool within_two_percent(const Step& step, const json& point) {
  const std::uint64_t budget = point["budget"].get<std::uint64_t>();
  const DtrReport report = run_dtr(step, {.heuristic = kinds.at(point["heuristic"]), .budget_bytes = budget});
  const bool finished = report.outcome == DtrOutcome::finished;
  if (finished != (point["status"] == "ok")) return false;
  if (!finished) return true;
  const Price price = check_schedule(step, report.schedule, budget);
  REQUIRE(price.wrong.empty());
  const double overhead = static_cast<double>(price.cost_ns) / static_cast<double>(step.cost_ns);
  return std::abs(overhead / point["overhead"].get<double>() - 1) <= 0.02;
}

// `most_off` of the points may be further away: decision 038 says which and why.
void check_log(const std::string& file, const std::string& model, std::uint32_t points,
               std::uint32_t most_off) {
  const auto text = test::reference_data("dtr/" + file + ".json.gz");
  const auto reference = test::reference_data("dtr/simrd_reference.json");
  if (!text || !reference) return;
  const auto trace = parse_trace(*text);
  REQUIRE(trace);
  const auto step = step_of(*trace);
  REQUIRE(step);
  std::uint32_t seen = 0, off = 0;
  const json figures = json::parse(*reference);
  for (const json& point : figures["results"]) {
    if (point["model"] != model) continue;
    const auto simrd_peak = point["baseline"]["mem"].get<double>();
    REQUIRE(std::abs(static_cast<double>(peak_bytes_of(*step)) / simrd_peak - 1) < 0.001);
    ++seen;
    off += within_two_percent(*step, point) ? 0 : 1;
  }
  CHECK(seen == points);
  CHECK(off <= most_off);
}

TEST_CASE("Chen's segments of DenseNet121 are made again at most once") {
  const auto text = test::reference_data("dtr/tv_densenet121-84.json.gz");
  if (!text) return;
  const auto step = step_of(*parse_trace(*text));
  REQUIRE(step);
  const auto schedule = chen_sqrt(*step);
  REQUIRE(schedule);
  const Price price = check_schedule(*step, *schedule, peak_bytes_of(*step));
  INFO(price.wrong);
  REQUIRE(price.wrong.empty());
  CHECK(price.recomputations > 0);
  CHECK(price.recomputations <= step->backward_begins);
  CHECK(price.peak_bytes < peak_bytes_of(*step) / 2);
}

TEST_CASE("DTR is within 2% of simrd on ResNet32") { check_log("resnet32-56", "resnet32", 42, 4); }
TEST_CASE("DTR is within 2% of simrd on DenseNet121") {
  check_log("tv_densenet121-84", "tv_densenet121", 41, 0);
}
TEST_CASE("DTR is within 2% of simrd on InceptionV4") { check_log("inceptionv4-64", "inceptionv4", 41, 0); }
TEST_CASE("DTR is within 2% of simrd on U-Net") { check_log("unet-6", "unet", 37, 1); }

}  // namespace
}  // namespace terrace::planner::recompute
