// How long the simulator itself takes, and whether its judge notices damage.
#include "daemon/planner/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/least_step.h"
#include "tools/bench/planner/step.h"

namespace terrace::bench {
namespace {

using planner::Machine;
using planner::SimulationReport;
using planner::SwapPolicy;
using wire::Trace;

constexpr std::uint32_t simulated_layers = 2500;  // 5,000 operations, 10,000 tensors
constexpr double target_ms = 50;

Json speed_row(const Trace& trace, const Machine& machine, const SwapPolicy& policy, LeastStep* least,
               long rounds) {
  Json row{{"policy", policy.name}};
  double start = now_s();
  const auto schedule = policy.plan(trace, machine);
  row["plan_ms"] = (now_s() - start) * 1e3;
  if (!schedule) {
    row["note"] = schedule.error;
    return row;
  }
  row["entries"] = schedule->entries.size();
  std::optional<LeastStep> reordered;
  if (!schedule->operations.empty()) least = &reordered.emplace(least->in_order_of(*schedule));
  std::vector<double> times;
  for (long round = 0; round < rounds; ++round) {
    start = now_s();
    const auto report = planner::simulate(trace, machine, *schedule, {.victims = schedule->victims});
    times.push_back((now_s() - start) * 1e3);
    if (!report) {
      row["note"] = "does not fit";
      return row;
    }
    add_slowdown(&row, *report, least->of(*report).step_us);
  }
  row["simulate_ms"] = median(times);
  row["met"] = row["simulate_ms"] < target_ms;
  return row;
}

// How many layers a step of the planning table has, and how long its first plan may take.
struct Length {
  const char* key;
  std::uint32_t layers = 0;
  double target_ms = 0;
};
constexpr Length lengths[] = {{"ms_10k", 5'000, 100}, {"ms_100k", 50'000, 2000}};

double plan_ms(const SwapPolicy& policy, const Trace& trace, const Machine& machine, long rounds) {
  std::vector<double> times;
  for (long round = 0; round < rounds; ++round) {
    const double start = now_s();
    const auto schedule = policy.plan(trace, machine);
    times.push_back((now_s() - start) * 1e3);
  }
  return median(times);
}

struct StepDamage {
  const char* name;
  // False where the report has nothing of the kind to damage.
  bool (*damage)(const Machine&, SimulationReport*);
};

bool start_before_the_data(const Machine&, SimulationReport* report) {
  for (auto& op : report->ops) {
    if (op.stalls.total_us() <= 1) continue;
    op.start_us -= op.stalls.total_us() / 2;
    return true;
  }
  return false;
}

bool overlap_operations(const Machine&, SimulationReport* report) {
  report->ops[1].start_us = report->ops[0].start_us;
  return true;
}

bool exceed_the_capacity(const Machine& machine, SimulationReport* report) {
  if (report->memory.empty()) return false;
  report->memory[report->memory.size() / 2].tier_bytes[0] = machine.tiers[0].capacity_bytes + 1;
  return true;
}

bool outrun_the_link(const Machine&, SimulationReport* report) {
  for (auto& transfer : report->transfers) {
    if (transfer.end_us - transfer.start_us < 10) continue;
    transfer.start_us = transfer.end_us - 1;
    return true;
  }
  return false;
}

bool lose_a_transfer(const Machine&, SimulationReport* report) {
  const auto in = std::find_if(report->transfers.begin(), report->transfers.end(),
                               [](const planner::Transfer& t) { return t.in; });
  if (in == report->transfers.end()) return false;
  report->transfers.erase(in);
  return true;
}

constexpr StepDamage step_damages[] = {
    {"an operation starts before its data is there", start_before_the_data},
    {"two operations run at once", overlap_operations},
    {"a tier holds more than it can", exceed_the_capacity},
    {"a transfer is faster than its link", outrun_the_link},
    {"a tensor is used that never came back", lose_a_transfer}};

// Steps that move much: memory for half of what they need, least recently used out.
std::vector<Json> damage_all(long steps) {
  std::vector<Json> rows;
  for (const StepDamage& kind : step_damages) {
    long tried = 0, caught = 0;
    for (long seed = 0; seed < steps; ++seed) {
      const Trace trace = training_step(40, static_cast<std::uint64_t>(seed));
      const Machine machine = machine_for(trace, 0.5);
      auto report = planner::simulate(trace, machine, {trace.name, "lru", {}},
                                      {.victims = planner::Victims::lru, .record_timeline = true});
      if (!report || !planner::check_timeline(trace, machine, *report).empty()) continue;
      if (!kind.damage(machine, &*report)) continue;
      ++tried;
      caught += !planner::check_timeline(trace, machine, *report).empty();
    }
    rows.push_back({{"damage", kind.name},
                    {"plan", "step"},
                    {"tried", tried},
                    {"caught", caught},
                    {"met", tried > 0 && caught == tried}});
  }
  return rows;
}

}  // namespace

Json measure_simulator(const PlannerOptions& options) {
  Json out = section(
      "One simulated step of 5,000 operations and 10,000 tensors, memory for 60% of it",
      {column("policy", "policy", "text"), column("entries", "entries", "count"),
       column("plan_ms", "planning, ms", "ms"), column("simulate_ms", "simulating, ms", "ms"),
       column("slowdown", "slowdown", "ratio"), column("bound", "bound", "ratio"),
       column("to_bound", "to bound", "ratio"), column("met", "met", "yes"), column("note", "", "text")});
  const Trace trace = training_step(simulated_layers, 0);
  const Machine machine = machine_for(trace, 0.6);
  LeastStep least(trace, machine);
  const double start = now_s();
  const bool finished = least.of({}).finished;
  const double bound_s = now_s() - start;
  for (const SwapPolicy& policy : planner::swap_policies())
    out["rows"].push_back(speed_row(trace, machine, policy, &least, std::max(options.rounds, 3L)));
  out["notes"] = {
      fmt::format("target: {:.0f} ms a run", target_ms),
      fmt::format("bound: the least slowdown of any schedule that moves (or, of one that recomputes, of "
                  "any), the first found in {:.1f} s{}",
                  bound_s, finished ? "" : ", where its search was cut short")};
  return out;
}

Json measure_planning(const PlannerOptions& options) {
  Json out = section("Planning one step by every published swap policy, memory for 60% of it",
                     {column("policy", "policy", "text"), column("ms_10k", "10,000 operations, ms", "ms"),
                      column("ms_100k", "100,000 operations, ms", "ms"), column("met", "met", "yes")});
  for (const SwapPolicy& policy : planner::published_swap_policies())
    if (!policy.moves_on_demand_only() && policy.coding == planner::Coding::as_planned)
      out["rows"].push_back({{"policy", policy.name}, {"met", true}});
  for (const Length& length : lengths) {
    const Trace trace = training_step(length.layers, 0);
    const Machine machine = machine_for(trace, 0.6);
    for (const SwapPolicy& policy : planner::published_swap_policies()) {
      const auto row = std::find_if(out["rows"].begin(), out["rows"].end(),
                                    [&](const Json& r) { return r["policy"] == policy.name; });
      if (row == out["rows"].end()) continue;
      const double ms = (*row)[length.key] = plan_ms(policy, trace, machine, std::max(options.rounds, 3L));
      (*row)["met"] = (*row)["met"].get<bool>() && ms <= length.target_ms;
    }
  }
  out["notes"] = {"target: 100 ms for 10,000 operations, 2 s for 100,000",
                  "cdma and cswap, for which this machine has no codec, are left out"};
  return out;
}

std::vector<Json> damaged_steps() { return damage_all(20); }

}  // namespace terrace::bench
