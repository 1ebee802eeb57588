// Totals of all strategies on real instances, against those of an independent implementation.
#include <catch2/catch.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/planner/reuse/tflite/strategies.h"
#include "tests/planner/policies.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::tflite::test {
namespace {

using nlohmann::json;

// Where the instance that the totals name lies today; empty for those made from logs that are not kept.
std::string file_of(const std::string& key) {
  const std::string name = key.substr(key.find('/') + 1);
  if (key.starts_with("challenging/")) return "minimalloc/" + name;
  if (key.starts_with("iopddl/")) return "dsa/" + name;
  return {};
}

const std::vector<std::pair<const char*, const char*>>& policies() {
  static const std::vector<std::pair<const char*, const char*>> all{
      {"tflite_naive", "NAIVE_objects_total"},
      {"tflite_equality", "EQUALITY_objects_total"},
      {"tflite_in_order", "GREEDY_IN_ORDER_objects_total"},
      {"tflite_by_breadth", "GREEDY_BY_BREADTH_objects_total"},
      {"tflite_by_size_objects", "GREEDY_BY_SIZE_objects_total"},
      {"tflite_best", "GREEDY_BEST_objects_total"},
      {"tflite_min_cost_flow", "MINCOSTFLOW_objects_total"},
      {"tflite_by_size", "GREEDY_BY_SIZE_offsets_total"}};
  return all;
}

void check_totals(const Instance& instance, const json& expected) {
  CHECK(max_live_bytes(instance.buffers) == expected["lower_bound_max_breadth"].get<std::uint64_t>());
  const std::vector<Record> records = records_of(instance).records;
  std::uint64_t bound = 0;
  for (const std::uint64_t m : positional_maxima(records)) bound += m;
  CHECK(bound == expected["lower_bound_objects"].get<std::uint64_t>());
  for (const auto& [name, key] : policies()) {
    const Result<Placement> placement = planner::test::policy(name).place(instance, {});
    INFO(instance.name << " " << name);
    REQUIRE(placement);
    CHECK_THAT(check_placement(instance, *placement), Catch::Equals(""));
    if (expected.contains(key)) CHECK(placement->total_bytes == expected[key].get<std::uint64_t>());
  }
}

}  // namespace

TEST_CASE("Totals on real instances are those of an independent implementation") {
  const auto text = planner::test::reference_data("tflite_strategies_on_real_instances.json");
  if (!text) return;
  const json results = json::parse(*text)["results"];
  int checked = 0;
  for (const auto& [key, expected] : results.items()) {
    const std::string file = file_of(key);
    if (file.empty()) {
      std::printf("SKIP: %s was made from the releases of a log, which its trace does not hold\n",
                  key.c_str());
      continue;
    }
    const auto csv = planner::test::reference_data(file);
    if (!csv) continue;
    check_totals(planner::test::instance_from_csv(file, *csv), expected);
    ++checked;
  }
  CHECK(checked > 0);
}

}  // namespace terrace::planner::tflite::test
