// Times that drift: what a plan of `joint` is still worth when operations take other times, and what it costs
// to make it fit again.
#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <utility>

#include "tools/bench/measuring/measure.h"
#include "tools/bench/policies/parts.h"

namespace terrace::bench {
namespace {

using planner::SwapControl;
using planner::SwapPlan;

constexpr const char* groups[] = {"g10-a100-g10", "g10-a100-ssd", "dtr-60", "made-up-60"};
constexpr double noise = 0.2;  // of each operation's time, up or down
constexpr std::uint64_t draws = 5;
constexpr double effort_again = 0.1, effort_when_quick = 0.05;
constexpr double most_lost = 1.01, most_share = 0.1;  // what is wanted

wire::Trace with_noise(wire::Trace trace, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (wire::TraceOp& op : trace.ops) {
    const double drawn = static_cast<double>(random() >> 11) * 0x1p-53;
    op.time_us *= 1 + noise * (2 * drawn - 1);
  }
  return trace;
}

double computing_us(const wire::Trace& trace) {
  double sum_us = 0;
  for (const wire::TraceOp& op : trace.ops) sum_us += op.time_us;
  return sum_us;
}

// The slowdown of the second of two steps; sets `valid` to false where the judge disagrees or there is none.
double slowdown(const wire::Trace& trace, const planner::Machine& machine, const SwapPlan& plan,
                bool* valid) {
  const auto report = planner::simulate_repeated(trace, machine, plan, plan.victims, true);
  *valid = *valid && report && planner::check_timeline(trace, machine, *report).empty();
  return report ? report->total_us / computing_us(trace) : NAN;
}

// A plan, and the seconds that it took; ends the program where `joint` has none.
std::pair<SwapPlan, double> planned(const PolicyCase& c, const wire::Trace& trace,
                                    const SwapControl& control) {
  const double start = now_s();
  auto plan = planner::swap_policy("joint")->plan(trace, c.machine, control);
  if (!plan) throw std::runtime_error("joint has no plan for " + c.workload + ": " + plan.error);
  return {std::move(*plan), now_s() - start};
}

Json measure(const PlannerOptions& options, const std::string& group, const PolicyCase& c) {
  SwapControl anew;
  if (options.quick) anew.effort = effort_when_quick;
  Json row{{"steps", group}, {"workload", c.workload}};
  bool valid = true;
  const auto [plan, plan_s] = planned(c, c.trace, anew);
  row["exact"] = slowdown(c.trace, c.machine, plan, &valid);
  double sum = 0;
  for (std::uint64_t seed = 0; seed < draws; ++seed)
    sum += std::log(slowdown(with_noise(c.trace, seed), c.machine, plan, &valid));
  row["kept"] = std::exp(sum / draws);
  const wire::Trace drifted = with_noise(c.trace, 0);
  SwapControl again = anew;
  again.effort *= effort_again;
  again.from = &plan;
  const auto [changed, changed_s] = planned(c, drifted, again);
  const auto [other, other_s] = planned(c, drifted, anew);
  row["kept_first"] = slowdown(drifted, c.machine, plan, &valid);
  row["changed"] = slowdown(drifted, c.machine, changed, &valid);
  row["anew"] = slowdown(drifted, c.machine, other, &valid);
  row["changed_s"] = changed_s;
  row["anew_s"] = other_s;
  row["valid"] = valid;
  return row;
}

double mean_of(const std::vector<Json>& cases, const char* key) {
  double sum = 0;
  for (const Json& c : cases) sum += std::log(c[key].get<double>());
  return std::exp(sum / static_cast<double>(cases.size()));
}

double sum_of(const std::vector<Json>& cases, const char* key) {
  double sum = 0;
  for (const Json& c : cases) sum += c[key].get<double>();
  return sum;
}

Json drift_summary(const std::string& group, const std::vector<Json>& cases) {
  Json row{{"steps", group}, {"ran", cases.size()}};
  for (const char* key : {"exact", "kept", "kept_first", "changed", "anew"}) row[key] = mean_of(cases, key);
  double worst = 0;
  for (const Json& c : cases) worst = std::max(worst, c["kept"].get<double>() / c["exact"].get<double>());
  row["worst"] = worst;
  row["share"] = sum_of(cases, "changed_s") / sum_of(cases, "anew_s");
  const bool valid =
      std::all_of(cases.begin(), cases.end(), [](const Json& c) { return c["valid"].get<bool>(); });
  row["met"] = valid && row["kept"].get<double>() <= most_lost * row["exact"].get<double>() &&
               row["share"].get<double>() <= most_share;
  return row;
}

}  // namespace

Json measure_drift(const PlannerOptions& options) {
  Json out =
      section("Times that drift: each operation's by up to 20%, under the plan for the times before",
              {column("steps", "steps", "text"), column("ran", "ran", "count"),
               column("exact", "planned", "ratio"), column("kept", "drifted", "ratio"),
               column("worst", "most lost", "ratio"), column("kept_first", "drifted, first draw", "ratio"),
               column("changed", "plan changed", "ratio"), column("anew", "planned anew", "ratio"),
               column("share", "time to change", "ratio"), column("met", "met", "yes")});
  for (const char* name : groups) {
    const PolicyGroup group = policy_group(options, name);
    std::vector<Json> cases;
    for (const PolicyCase& c : group.cases) cases.push_back(measure(options, name, c));
    if (cases.empty()) continue;
    out["rows"].push_back(drift_summary(name, cases));
    for (Json& c : cases) out["cases"].push_back(std::move(c));
  }
  out["notes"] = Json::array(
      {"geometric means of joint's slowdown to computing alone; drifted: five draws; most lost: of one step",
       "plan changed: from the plan for the times before, with a tenth of the plans tried; time to change: "
       "to "
       "that of planning anew",
       "met: the judge agrees, at most 1% is lost in the mean, and the change takes at most a tenth of the "
       "time"});
  return out;
}

}  // namespace terrace::bench
