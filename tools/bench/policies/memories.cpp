// The section `memories` of terrace bench policies: AutoTM, Sentinel and ours on two memories, a tenth to a
// half of a step's peak fast.
//
// The machine is AutoTM's, a socket with Optane behind DRAM, by its ratios: the shared steps were measured on
// GPUs, so the fast memory is that GPU's, and the slow one as much slower as Optane is than DRAM. A slowdown
// does not change where all times and bandwidths are scaled alike.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "daemon/planner/memories/policies.h"
#include "daemon/planner/trace_json.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/step.h"
#include "tools/bench/policies/parts.h"

namespace terrace::bench {
namespace {

namespace memories = planner::memories;

constexpr int shares[] = {10, 20, 30, 40, 50};  // percent of the most that lives at once
constexpr int quick_share = 20;
constexpr double quick_effort = 0.05;

// Six interleaved modules read 39.4 GB/s and write 13.9, a load takes 305 ns (Izraelevitz et al. 2019,
// arXiv:1903.05714); six channels of DDR4-2666 have 128 GB/s.
constexpr double slow_read = 39.4 / 128, slow_write = 13.9 / 128;
constexpr double slow_latency_us = 0.3;
constexpr double titan_v_memory = 652.8e9;  // bytes per second, by its data sheet

struct Set {
  const char* name;
  const char* folder;  // of the data; none: made up
  double fast_bytes_per_second;
};

constexpr Set sets[] = {
    {"DTR", "dtr", titan_v_memory}, {"G10", "g10", a100_memory}, {"made up", nullptr, titan_v_memory}};

struct Named {
  std::string workload;
  wire::Trace trace;
};

std::vector<Named> steps_of(const PlannerOptions& options, const Set& set) {
  std::vector<Named> all;
  if (set.folder == nullptr) {
    all.push_back({"made up 0", training_step(options.quick ? 50 : 500, 0)});
    return all;
  }
  for (const std::string& file : data_files(options, set.folder, ".json.gz")) {
    if (options.quick && !all.empty()) break;
    Result<wire::Trace> trace = planner::parse_trace(*data_file(options, file));
    if (trace) all.push_back({file.substr(file.find('/') + 1), std::move(*trace)});
  }
  return all;
}

planner::Machine machine_of(const Set& set, std::uint64_t fast_bytes) {
  const double rate = set.fast_bytes_per_second;
  planner::Machine m;
  m.name = "two memories";
  m.tiers = {{"fast", fast_bytes, {rate, rate, 0, 0}},
             {"slow",
              planner::unlimited_bytes,
              {slow_read * rate, slow_write * rate, slow_latency_us, slow_latency_us}}};
  m.links = {{"copies", rate, rate, slow_latency_us, slow_latency_us}};
  m.routes = {{1, {0}}};
  return m;
}

memories::Step step_with(const wire::Trace& trace, const Set& set, int percent) {
  const auto whole = memories::step_on(trace, machine_of(set, 1));
  const std::uint64_t fast_bytes =
      whole ? whole->peak_bytes() / 100 * static_cast<std::uint64_t>(percent) : 0;
  Result<memories::Step> step = memories::step_on(trace, machine_of(set, fast_bytes));
  if (!step) throw std::runtime_error(step.error);
  return std::move(*step);
}

Json judged(const memories::Step& step, const memories::Planned& planned, double least_us) {
  const memories::Report report = memories::simulate(step, planned.plan, {.timeline = true});
  const std::string wrong = memories::check(step, report);
  Json row{{"slowdown", report.total_us / step.compute_us},
           {"bound", least_us / step.compute_us},
           {"access_share", report.access_us / report.total_us},
           {"wait_share", report.wait_us / report.total_us},
           {"moved_in_bytes", report.in_bytes},
           {"moved_out_bytes", report.out_bytes}};
  if (planned.bound_us > 0) row["static_bound"] = planned.bound_us / step.compute_us;
  row["valid"] =
      wrong.empty() && report.fast_peak_bytes <= step.fast_bytes && report.total_us >= least_us * (1 - 1e-6);
  if (!wrong.empty()) row["note"] = wrong;
  return row;
}

// Every policy on one step with one share. Ours starts from the others' plans, whose time is in its own.
void measure(const PlannerOptions& options, const Set& set, const Named& named, int percent, Json* cases) {
  const memories::Step step = step_with(named.trace, set, percent);
  const double least_us = memories::least_step_us(step);
  memories::Control control;
  if (options.quick) control.effort = quick_effort;
  memories::Planned best;
  double all_ms = 0;
  for (const memories::Policy& policy : memories::policies()) {
    const bool ours = policy.plan == memories::plan_search;
    const double start = now_s();
    const memories::Planned planned =
        ours ? memories::search_from(step, control, best) : policy.plan(step, control);
    all_ms += (now_s() - start) * 1e3;
    Json row{
        {"steps", set.name}, {"workload", named.workload}, {"percent", percent}, {"policy", policy.name}};
    row["plan_ms"] = ours ? all_ms : (now_s() - start) * 1e3;
    row.update(judged(step, planned, least_us));
    row["no_slower"] = best.plan.born_fast.empty() || planned.total_us <= best.total_us;
    cases->push_back(row);
    if (best.plan.born_fast.empty() || planned.total_us < best.total_us) best = planned;
  }
  const double slow_us =
      memories::simulate(step, {std::vector<bool>(step.tensors.size(), false), {}}).total_us;
  cases->push_back({{"steps", set.name},
                    {"workload", named.workload},
                    {"percent", percent},
                    {"policy", "all slow"},
                    {"slowdown", slow_us / step.compute_us},
                    {"bound", least_us / step.compute_us},
                    {"valid", true}});
}

std::string key_of(int percent) { return fmt::format("at_{}", percent); }

// Geometric means over a set's steps, by share; `value` is the policy's slowdown, or the bound.
Json row_of(const Json& cases, const std::string& set, const std::string& policy, const char* value) {
  Json row{{"steps", set}, {"policy", std::string(value) == "bound" ? "bound" : policy}};
  double worst = 0, longest_ms = 0;
  bool met = true;
  for (const int percent : shares) {
    double sum = 0;
    int count = 0;
    for (const Json& c : cases) {
      if (c["steps"] != set || c["policy"] != policy || c["percent"] != percent) continue;
      sum += std::log(c[value].get<double>());
      worst = std::max(worst, c[value].get<double>());
      longest_ms = std::max(longest_ms, c.value("plan_ms", 0.0));
      met = met && c["valid"].get<bool>() && (policy != "search" || c["no_slower"].get<bool>());
      ++count;
    }
    if (count > 0) row[key_of(percent)] = std::exp(sum / count);
    if (count > 0) row["ran"] = count;
  }
  row["worst"] = worst;
  if (longest_ms > 0) row["longest_ms"] = longest_ms;
  if (std::string(value) != "bound") row["met"] = met;
  return row;
}

}  // namespace

Json measure_memories(const PlannerOptions& options) {
  std::vector<Json> columns{column("steps", "steps", "text"), column("policy", "policy", "text")};
  for (const int percent : shares)
    columns.push_back(column(key_of(percent).c_str(), fmt::format("{}% fast", percent).c_str(), "ratio"));
  columns.push_back(column("worst", "worst", "ratio"));
  columns.push_back(column("longest_ms", "longest plan, ms", "ms"));
  columns.push_back(column("met", "valid", "yes"));
  Json out =
      section("Two memories: a part of a step's peak fast, the rest used in place", std::move(columns));
  Json cases = Json::array();
  for (const Set& set : sets) {
    const std::vector<Named> steps = steps_of(options, set);
    for (const Named& named : steps)
      for (const int percent : shares)
        if (!options.quick || percent == quick_share) measure(options, set, named, percent, &cases);
    if (steps.empty()) continue;
    out["rows"].push_back(row_of(cases, set.name, "all slow", "slowdown"));
    for (const memories::Policy& policy : memories::policies())
      out["rows"].push_back(row_of(cases, set.name, policy.name, "slowdown"));
    out["rows"].push_back(row_of(cases, set.name, "search", "bound"));
  }
  out["cases"] = std::move(cases);
  out["notes"] = Json::array(
      {"geometric means of the slowdown to a step with everything fast, and the worst case of all",
       "bound: no plan of a step that begins as it ends is faster; valid: the judge agrees, and search is no "
       "slower than the others"});
  return out;
}

}  // namespace terrace::bench
