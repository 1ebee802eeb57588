// All that LiteRT's own tests assert about sizes in bytes, and what was derived from them: object ids, sizes,
// offsets.
#include <catch2/catch.hpp>
#include <map>

#include "tests/planner/policies.h"
#include "tests/planner/tflite/vectors.h"

namespace terrace::planner::tflite::test {
namespace {

using nlohmann::json;
using planner::test::policy;

Objects assign(const std::string& strategy, Records records) {
  if (strategy == "NAIVE") return naive(records);
  if (strategy == "EQUALITY") return equality(records);
  if (strategy == "GREEDY_IN_ORDER") return in_order(records);
  if (strategy == "GREEDY_BY_BREADTH") return by_breadth(records);
  if (strategy == "GREEDY_BY_SIZE") return *by_size_objects(records, {});
  if (strategy == "MINCOSTFLOW") return *min_cost_flow(records, {});
  FAIL("unknown strategy " << strategy);
  return {};
}

// The policy whose placement is what TFLite calls so when asked for offsets.
std::string policy_of(const std::string& derived) {
  static const std::map<std::string, std::string> names{
      {"offsets_NAIVE", "tflite_naive"},
      {"offsets_EQUALITY", "tflite_equality"},
      {"offsets_GREEDY_IN_ORDER", "tflite_in_order"},
      {"offsets_GREEDY_BY_BREADTH", "tflite_by_breadth"},
      {"offsets_MINCOSTFLOW", "tflite_min_cost_flow"},
      {"offsets_via_objects_GREEDY_BY_SIZE", "tflite_by_size_objects"}};
  const auto it = names.find(derived);
  return it == names.end() ? std::string() : it->second;
}

void check_placed(const std::string& name, const Instance& instance, const json& expected) {
  INFO(name);
  const Result<Placement> placement = policy(name).place(instance, {});
  REQUIRE(placement);
  CHECK(placement->offsets == expected["offsets"].get<std::vector<std::uint64_t>>());
  CHECK(placement->total_bytes == expected["total_size"].get<std::uint64_t>());
  CHECK_THAT(check_placement(instance, *placement), Catch::Equals(""));
}

// Cases with sizes in bytes; the others are in shapes_test.cpp.
std::vector<json> cases_in_bytes() {
  std::vector<json> cases;
  const json all = vectors();
  for (const auto& c : all["cases"])
    if (c["size_type"] == "size_t") cases.push_back(c);
  return cases;
}

}  // namespace

TEST_CASE("Every strategy gives TFLite's objects") {
  int asserted = 0;
  for (const json& c : cases_in_bytes()) {
    const auto records = records_in(c["records"]);
    for (const auto& [strategy, expected] : c["objects"].items()) {
      INFO(c["name"] << " " << strategy);
      const Objects objects = assign(strategy, records);
      CHECK(objects.object_of == expected["object_ids"].get<std::vector<std::uint32_t>>());
      CHECK(objects.object_bytes == expected["object_sizes"].get<std::vector<std::uint64_t>>());
      CHECK(offsets_of(objects).total_bytes == expected["total_size"].get<std::uint64_t>());
      ++asserted;
    }
  }
  CHECK(asserted == 24);
}

TEST_CASE("Offsets by size are TFLite's, with and without alignment") {
  int asserted = 0;
  for (const json& c : cases_in_bytes()) {
    for (const auto& expected : c["offsets"]) {
      INFO(c["name"]);
      const auto alignment = expected["base_addr_align_bytes"].get<std::uint64_t>();
      check_placed("tflite_by_size", instance_in(c["records"], alignment), expected);
      ++asserted;
    }
  }
  CHECK(asserted == 5);
}

TEST_CASE("Placements through objects, the best of them and the bounds are the derived ones") {
  for (const json& c : cases_in_bytes()) {
    INFO(c["name"]);
    const Instance instance = instance_in(c["records"], 1);
    const json& derived = c["derived"];
    for (const auto& [key, expected] : derived.items())
      if (!policy_of(key).empty()) check_placed(policy_of(key), instance, expected);
    const Result<Placement> best = policy("tflite_best").place(instance, {});
    REQUIRE(best);
    CHECK(best->total_bytes == derived["objects_GREEDY_BEST"]["total_size"].get<std::uint64_t>());
    CHECK(max_live_bytes(instance.buffers) == derived["lower_bound_max_breadth"].get<std::uint64_t>());
    std::uint64_t bound = 0;
    for (const std::uint64_t m : positional_maxima(records_in(c["records"]))) bound += m;
    CHECK(bound == derived["lower_bound_objects_sum_positional_max"].get<std::uint64_t>());
  }
}

TEST_CASE("Objects lie one after the other") {
  const json cases = vectors()["objects_to_offsets"];
  CHECK(cases.size() == 4);
  for (const auto& c : cases) {
    INFO(c["name"]);
    const Placement placement = offsets_of({c["object_ids"].get<std::vector<std::uint32_t>>(),
                                            c["object_sizes"].get<std::vector<std::uint64_t>>()});
    CHECK(placement.offsets == c["offsets"].get<std::vector<std::uint64_t>>());
    const char* const total = c["total_size"].is_null() ? "derived_total_size" : "total_size";
    CHECK(placement.total_bytes == c[total].get<std::uint64_t>());
  }
}

TEST_CASE("Task profiles and positional maxima are TFLite's") {
  const json cases = vectors()["task_profiles"];
  CHECK(cases.size() == 4);
  for (const auto& c : cases) {
    INFO(c["name"]);
    const auto records = records_in(c["records"]);
    CHECK(task_profiles(records) == c["profiles_by_record_index"].get<UsageGraph>());
    CHECK(positional_maxima(records) == c["positional_max"].get<std::vector<std::uint64_t>>());
  }
}

TEST_CASE("Reallocation graphs are TFLite's") {
  const json cases = vectors()["reallocation_graph"];
  CHECK(cases.size() == 4);
  for (const auto& c : cases) {
    INFO(c["name"]);
    CHECK(reallocation_graph(c["deps"].get<UsageGraph>()) == c["realloc"].get<UsageGraph>());
  }
}

}  // namespace terrace::planner::tflite::test
