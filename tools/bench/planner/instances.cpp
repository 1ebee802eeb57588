// Placements of instances that others published: MiniMalloc's hard ones, and large real ones.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/child.h"

namespace terrace::bench {
namespace {

constexpr const char* exact_policy = "exact";
constexpr const char* our_policy = "terrace";

// Seconds of google/minimalloc@9f5cf810 on two cores of an AMD EPYC (g++ 12.2, Release), single-threaded: the
// targets that these instances came with.
const std::map<std::string, double>& published_seconds() {
  static const std::map<std::string, double> seconds{
      {"A.1048576", 3.680}, {"B.1048576", 2.560}, {"C.1048576", 0.530}, {"D.1048576", 1.860},
      {"E.1048576", 2.700}, {"F.1048576", 5.000}, {"G.1048576", 0.907}, {"H.1048576", 1.290},
      {"I.1048576", 2.620}, {"J.1048576", 0.700}, {"K.1048576", 0.484}, {"C.1039360", 0.013}};
  return seconds;
}

struct HardInstance {
  std::string name, path;
  std::uint64_t capacity_bytes = 0;
};

std::vector<HardInstance> hard_instances(const PlannerOptions& options) {
  std::vector<HardInstance> all;
  for (const std::string& file : data_files(options, "minimalloc", ".csv")) {
    const std::string name = std::filesystem::path(file).stem().string();  // "A.1048576"
    const std::string path = options.data + "/" + file;
    all.push_back({name, path, std::strtoull(name.substr(name.find_last_of('.') + 1).c_str(), nullptr, 10)});
    // C's bound is below the capacity that it is published with, and can be reached.
    if (name == "C.1048576") all.push_back({"C.1039360", path, 1039360});
  }
  return all;
}

// Its own figure, of the search alone; nothing if it did not find one in `limit` seconds.
std::optional<double> run_minimalloc(const std::string& program, const HardInstance& instance, double limit) {
  const std::string output = run_captured({"sh", "-c",
                                           "\"$PROGRAM\" --capacity=\"$CAPACITY\" --input=\"$INPUT\" "
                                           "--output=/dev/null --timeout=\"$LIMIT\" 2>&1 || "
                                           "echo failed"},
                                          {{"PROGRAM", program},
                                           {"CAPACITY", std::to_string(instance.capacity_bytes)},
                                           {"INPUT", instance.path},
                                           {"LIMIT", std::to_string(limit) + "s"}});
  static const std::string before = "Elapsed time ";
  const std::size_t at = output.find(before);
  if (at == std::string::npos || output.find("failed") != std::string::npos) return std::nullopt;
  return std::strtod(output.c_str() + at + before.size(), nullptr);
}

Json exact_row(const PlannerOptions& options, const HardInstance& instance, double limit) {
  Json row{{"instance", instance.name}, {"capacity_bytes", instance.capacity_bytes}};
  std::vector<double> ours, theirs;
  bool solved = true;
  for (long round = 0; round < options.rounds; ++round) {
    const Json child = run_in_child({exact_policy, instance.path, limit, instance.capacity_bytes});
    solved = solved && child.value("valid", false) && child["total_bytes"] <= instance.capacity_bytes;
    ours.push_back(child["seconds"]);
    if (round == 0) row["buffers"] = child["buffers"];
    if (options.minimalloc.empty()) continue;
    if (const auto seconds = run_minimalloc(options.minimalloc, instance, limit)) theirs.push_back(*seconds);
  }
  row["solved"] = solved;
  row["seconds"] = median(ours);
  if (!theirs.empty()) row["minimalloc_seconds"] = median(theirs);
  if (const auto known = published_seconds().find(instance.name); known != published_seconds().end()) {
    row["target_seconds"] = known->second;
    row["met"] = solved && row["seconds"] <= known->second;
  }
  return row;
}

Json with_gap(Json child, const std::string& name) {
  Json row{{"instance", name}};
  row.update(child);
  if (child.contains("total_bytes"))
    row["gap"] = child["total_bytes"].get<double>() / child["bound_bytes"].get<double>() - 1;
  return row;
}

// The least total of every other policy, and whose it is.
void add_best_other(const std::string& path, double limit, Json* row) {
  std::uint64_t best = ~std::uint64_t{0};
  for (const planner::ReusePolicy& policy : planner::reuse_policies()) {
    if (std::string(policy.name) == our_policy) continue;
    const Json child = run_in_child({policy.name, path, limit, 0});
    if (!child.value("valid", false) || child["total_bytes"] >= best) continue;
    best = child["total_bytes"];
    (*row)["best_other"] = policy.name;
    (*row)["best_other_gap"] = static_cast<double>(best) / child["bound_bytes"].get<double>() - 1;
  }
}

struct LargeTarget {
  double seconds, gap;
};

// What was asked for of an instance; of any other, what was asked for of those with 30,000 to 60,000 buffers.
LargeTarget target_of(const std::string& name) {
  if (name.find("pangu_2.6B") != std::string::npos) return {10, 0.001};
  if (name.starts_with("dtr/")) return {10, 0};
  if (name.find("resnet50") != std::string::npos || name.find("G_1") != std::string::npos) return {1, 0};
  return {60, 0.01};
}

}  // namespace

Json measure_minimalloc(const PlannerOptions& options) {
  constexpr const char* title = "Exact search on MiniMalloc's instances, single-threaded, seconds";
  const std::vector<HardInstance> instances = hard_instances(options);
  if (instances.empty()) return skipped(title, "no minimalloc/*.csv in the data");
  Json out =
      section(title, {column("instance", "instance", "text"), column("buffers", "buffers", "count"),
                      column("capacity_bytes", "capacity", "count"), column("solved", "solved", "yes"),
                      column("seconds", "terrace", "s"), column("minimalloc_seconds", "MiniMalloc here", "s"),
                      column("target_seconds", "MiniMalloc, published", "s"), column("met", "met", "yes")});
  const double limit = options.quick ? 5 : 60;
  for (const HardInstance& instance : instances) out["rows"].push_back(exact_row(options, instance, limit));
  return out;
}

Json measure_large(const PlannerOptions& options) {
  constexpr const char* title = "Placement of large real instances by policy terrace";
  std::vector<std::string> files = data_files(options, "dsa", ".csv");
  const std::vector<std::string> traces = data_files(options, "dtr", ".json.gz");
  files.insert(files.end(), traces.begin(), traces.end());
  if (files.empty()) return skipped(title, "no dsa/*.csv or dtr/*.json.gz in the data");
  Json out = section(
      title, {column("instance", "instance", "text"), column("buffers", "buffers", "count"),
              column("bound_bytes", "bound", "bytes"), column("gap", "over bound", "percent"),
              column("seconds", "s", "s"), column("first_seconds", "first plan, s", "s"),
              column("peak_rss_bytes", "peak memory", "bytes"), column("valid", "valid", "yes"),
              column("best_other", "best other policy", "text"),
              column("best_other_gap", "its gap", "percent"), column("target_gap", "target", "percent"),
              column("target_seconds", "within s", "count"), column("met", "met", "yes")});
  for (const std::string& file : files) {
    const std::string path = options.data + "/" + file;
    const LargeTarget target = target_of(file);
    Json row = with_gap(run_in_child({our_policy, path, options.quick ? 1 : target.seconds, 0}), file);
    row["target_gap"] = target.gap;
    row["target_seconds"] = target.seconds;
    row["met"] =
        row.value("valid", false) && row["gap"] <= target.gap && row["peak_rss_bytes"] < (1ULL << 30);
    if (!options.quick) add_best_other(path, 5, &row);
    out["rows"].push_back(std::move(row));
  }
  return out;
}

}  // namespace terrace::bench
