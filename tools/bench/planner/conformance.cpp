#include "tools/bench/planner/conformance.h"

#include <fmt/format.h>

#include <map>

#include "daemon/planner/reuse/tflite/shapes.h"
#include "daemon/planner/reuse/tflite/strategies.h"
#include "tools/cli/plan/plan_load.h"
#include "tools/import/import.h"

namespace terrace::bench {
namespace {

using nlohmann::json;
using planner::Instance;
using planner::Objects;
using planner::Placement;
using planner::tflite::Record;
using planner::tflite::Shape;
using planner::tflite::ShapeObjects;
using planner::tflite::UsageRecord;
namespace tflite = planner::tflite;

constexpr const char* litert = "LiteRT f67457790";

template <class Size = std::uint64_t>
std::vector<UsageRecord<Size>> records_in(const json& list) {
  std::vector<UsageRecord<Size>> records;
  for (const auto& r : list)
    records.push_back(
        {r["size"].get<Size>(), r["first_task"].get<std::uint32_t>(), r["last_task"].get<std::uint32_t>()});
  return records;
}

// The same records as buffers: a closed interval ends one later.
Instance instance_in(const json& list, std::uint64_t alignment) {
  Instance instance;
  for (const Record& r : records_in(list))
    instance.buffers.push_back({r.size, r.first_task, r.last_task + 1, alignment, planner::no_tensor});
  return instance;
}

Result<Objects> assign(const std::string& strategy, tflite::Records records) {
  if (strategy == "NAIVE") return ok(tflite::naive(records));
  if (strategy == "EQUALITY") return ok(tflite::equality(records));
  if (strategy == "GREEDY_IN_ORDER") return ok(tflite::in_order(records));
  if (strategy == "GREEDY_BY_BREADTH") return ok(tflite::by_breadth(records));
  if (strategy == "GREEDY_BY_SIZE") return tflite::by_size_objects(records, {});
  if (strategy == "MINCOSTFLOW") return tflite::min_cost_flow(records, {});
  return refused<Objects>("no strategy " + strategy);
}

void expect_objects(const json& c, Reproduced* count) {
  const auto records = records_in(c["records"]);
  for (const auto& [strategy, expected] : c["objects"].items()) {
    const auto objects = assign(strategy, records);
    count->expect(objects && objects->object_of == expected["object_ids"].get<std::vector<std::uint32_t>>() &&
                      objects->object_bytes == expected["object_sizes"].get<std::vector<std::uint64_t>>(),
                  c["name"].get<std::string>() + " " + strategy);
  }
}

void expect_offsets(const json& c, Reproduced* count) {
  for (const auto& expected : c["offsets"]) {
    const auto alignment = expected["base_addr_align_bytes"].get<std::uint64_t>();
    const Instance instance = instance_in(c["records"], alignment);
    const auto placement = tflite::by_size(records_in(c["records"]), alignment, {});
    count->expect(placement && placement->offsets == expected["offsets"].get<std::vector<std::uint64_t>>() &&
                      placement->total_bytes == expected["total_size"].get<std::uint64_t>() &&
                      planner::check_placement(instance, *placement).empty(),
                  c["name"].get<std::string>() + " by size");
  }
}

template <std::size_t N>
bool equal(const ShapeObjects<N>& objects, const json& expected) {
  return objects.object_of == expected["object_ids"].get<std::vector<std::uint32_t>>() &&
         objects.shapes == expected["object_sizes"].get<std::vector<Shape<N>>>();
}

template <std::size_t N>
bool shapes_as_expected(const std::string& strategy, const json& c, const json& expected) {
  const auto records = records_in<Shape<N>>(c["records"]);
  const std::span<const UsageRecord<Shape<N>>> all(records);
  if (strategy == "NAIVE") return equal(tflite::naive_shapes<N>(all), expected);
  if constexpr (N == 4) {
    return strategy == "EQUALITY" && equal(tflite::equality_shapes_lifo(all), expected);
  } else {
    if (strategy == "EQUALITY") return equal(tflite::equality_shapes<N>(all), expected);
    return strategy == "GREEDY_IN_ORDER" && equal(tflite::in_order_shapes<N>(all), expected);
  }
}

void expect_shapes(const json& c, Reproduced* count) {
  for (const auto& [strategy, expected] : c["objects"].items()) {
    const std::string type = c["size_type"];
    const bool equal = type == "BHWC"    ? shapes_as_expected<4>(strategy, c, expected)
                       : type == "uint3" ? shapes_as_expected<3>(strategy, c, expected)
                                         : shapes_as_expected<2>(strategy, c, expected);
    count->expect(equal, fmt::format("{} {}", type, strategy));
  }
}

void add_cases(const json& vectors, Json* rows) {
  Reproduced objects(litert, "objects"), offsets(litert, "offsets"), shapes(litert, "objects of textures");
  for (const auto& c : vectors["cases"]) {
    if (c["size_type"] != "size_t") {
      expect_shapes(c, &shapes);
      continue;
    }
    expect_objects(c, &objects);
    expect_offsets(c, &offsets);
  }
  for (const Reproduced* count : {&objects, &offsets, &shapes}) rows->push_back(count->row());
}

void add_parts(const json& vectors, Json* rows) {
  Reproduced laid_out(litert, "objects to offsets"), profiles(litert, "task profiles, positional maxima"),
      graphs(litert, "reallocation graphs");
  for (const auto& c : vectors["objects_to_offsets"]) {
    const Placement placement = planner::offsets_of({c["object_ids"].get<std::vector<std::uint32_t>>(),
                                                     c["object_sizes"].get<std::vector<std::uint64_t>>()});
    laid_out.expect(placement.offsets == c["offsets"].get<std::vector<std::uint64_t>>(), c["name"]);
  }
  for (const auto& c : vectors["task_profiles"]) {
    const auto records = records_in(c["records"]);
    profiles.expect(
        tflite::task_profiles(records) == c["profiles_by_record_index"].get<tflite::UsageGraph>() &&
            tflite::positional_maxima(records) == c["positional_max"].get<std::vector<std::uint64_t>>(),
        c["name"]);
  }
  for (const auto& c : vectors["reallocation_graph"])
    graphs.expect(tflite::reallocation_graph(c["deps"].get<tflite::UsageGraph>()) ==
                      c["realloc"].get<tflite::UsageGraph>(),
                  c["name"]);
  for (const Reproduced* count : {&laid_out, &profiles, &graphs}) rows->push_back(count->row());
}

// Where an instance that the totals name lies; empty for those made from logs that are not kept.
std::string file_of(const std::string& key) {
  const std::string name = key.substr(key.find('/') + 1);
  if (key.starts_with("challenging/")) return "minimalloc/" + name;
  return key.starts_with("iopddl/") ? "dsa/" + name : "";
}

const std::map<std::string, std::string>& policies_by_total() {
  static const std::map<std::string, std::string> all{
      {"NAIVE_objects_total", "tflite_naive"},
      {"EQUALITY_objects_total", "tflite_equality"},
      {"GREEDY_IN_ORDER_objects_total", "tflite_in_order"},
      {"GREEDY_BY_BREADTH_objects_total", "tflite_by_breadth"},
      {"GREEDY_BY_SIZE_objects_total", "tflite_by_size_objects"},
      {"GREEDY_BEST_objects_total", "tflite_best"},
      {"MINCOSTFLOW_objects_total", "tflite_min_cost_flow"},
      {"GREEDY_BY_SIZE_offsets_total", "tflite_by_size"}};
  return all;
}

void expect_totals(const Instance& instance, const json& expected, Reproduced* count) {
  for (const planner::ReusePolicy& policy : planner::reuse_policies()) {
    for (const auto& [key, name] : policies_by_total()) {
      if (name != policy.name || !expected.contains(key)) continue;
      const auto placement = policy.place(instance, {});
      count->expect(placement && placement->total_bytes == expected[key].get<std::uint64_t>() &&
                        planner::check_placement(instance, *placement).empty(),
                    instance.name + " " + name);
    }
  }
}

Json totals_row(const PlannerOptions& options, const json& results) {
  Reproduced count("an independent implementation", "totals of all strategies on real instances");
  long instances = 0;
  for (const auto& [key, expected] : results.items()) {
    const auto text = file_of(key).empty() ? std::nullopt : data_file(options, file_of(key));
    if (!text) continue;
    const auto instance = import::parse_csv(*text);
    if (!instance) throw std::runtime_error(key + ": " + instance.error);
    expect_totals(*instance, expected, &count);
    ++instances;
  }
  Json row = count.row();
  row["what"] = row["what"].get<std::string>() + " (" + std::to_string(instances) + " of " +
                std::to_string(results.size()) + " are in the data)";
  return row;
}

json parsed(const PlannerOptions& options, const std::string& name) {
  const auto text = data_file(options, name);
  return text ? json::parse(*text) : json();
}

// TVM's two networks are no part of the vectors, only what they need is.
json subgraphs() {
  const auto text = cli::load_text(std::string(TERRACE_FIXTURES) + "/tvm_usmp_subgraphs.json");
  return text.result ? json::parse(*text.result) : json();
}

}  // namespace

Json measure_conformance(const PlannerOptions& options) {
  constexpr const char* title = "Conformance: what other projects' tests expect, and what we give";
  const json tflite_vectors = parsed(options, "tflite_vectors.json");
  const json tvm_vectors = parsed(options, "tvm_usmp_vectors.json");
  const json totals = parsed(options, "tflite_strategies_on_real_instances.json");
  if (tflite_vectors.is_null() || tvm_vectors.is_null() || totals.is_null())
    return skipped(title,
                   "tflite_vectors.json, tvm_usmp_vectors.json or tflite_strategies_on_real_instances.json "
                   "is not in the data");
  Json out = section(
      title, {column("source", "source", "text"), column("what", "what", "text"),
              column("expectations", "expectations", "count"), column("reproduced", "reproduced", "count"),
              column("met", "met", "yes"), column("miss", "", "text")});
  add_cases(tflite_vectors, &out["rows"]);
  add_parts(tflite_vectors, &out["rows"]);
  for (Json& row : tvm_conformance(tvm_vectors, subgraphs())) out["rows"].push_back(std::move(row));
  out["rows"].push_back(totals_row(options, totals["results"]));
  return out;
}

}  // namespace terrace::bench
