// The judges themselves: do all plans of all policies pass on random instances, and is each kind of damage to
// a plan caught?
#include <fmt/format.h>

#include <random>

#include "daemon/planner/simulate/simulator.h"
#include "tools/bench/planner/parts.h"
#include "tools/bench/planner/step.h"

namespace terrace::bench {
namespace {

using planner::Instance;
using planner::Placement;

constexpr std::uint32_t most_buffers = 40;
// Some policies refuse some (an alignment, a missing graph): enough for 100,000 placements all the same.
constexpr long random_instances = 120'000;

// Few sizes make ties, one end time makes chains without slack, alignments leave gaps: what trips policies.
Instance random_instance(std::mt19937_64& random) {
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  Instance instance{"random", {}, nullptr};
  const std::uint64_t sizes = below(2) == 0 ? 4 : 4096;
  const std::uint64_t end = 1 + below(30);
  const std::uint64_t alignment = std::uint64_t{1} << below(3) * 4;
  const std::uint64_t count = 1 + below(most_buffers);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto a = static_cast<std::uint32_t>(below(end)), b = static_cast<std::uint32_t>(below(end));
    instance.buffers.push_back(
        {1 + below(sizes), std::min(a, b), std::max(a, b) + 1, alignment, planner::no_tensor});
  }
  return instance;
}

// Bounded by its questions, not by time, so that the same seed gives the same plan.
planner::SearchControl short_search(std::uint64_t seed) {
  planner::SearchControl control;
  control.seed = seed;
  control.stop = [asked = 0]() mutable { return ++asked > 8; };
  return control;
}

struct Tally {
  long placed = 0, refused = 0, wrong = 0, below_bound = 0;
};

// Every third one is a step's, with its graph, which some policies need.
void judge(const planner::ReusePolicy& policy, std::uint64_t seed, Tally* tally) {
  std::mt19937_64 random(seed);
  const wire::Trace step = training_step(static_cast<std::uint32_t>(1 + seed % 9), seed);
  const Instance instance =
      seed % 3 == 0 ? planner::instance_of(step, std::uint64_t{1} << random() % 9) : random_instance(random);
  const auto placement = policy.place(instance, short_search(seed));
  if (!placement) {
    ++tally->refused;
    return;
  }
  ++tally->placed;
  tally->wrong += !planner::check_placement(instance, *placement).empty();
  tally->below_bound += placement->total_bytes < planner::max_live_bytes(instance.buffers);
}

// Two buffers that live together, one above the other, the upper one aligned to 16.
Instance pair_instance(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t bytes = 16 * (1 + random() % 1000);
  const auto begin = static_cast<std::uint32_t>(random() % 100);
  return {"pair",
          {{bytes, begin, begin + 10, 16, planner::no_tensor},
           {bytes, begin + 5, begin + 20, 16, planner::no_tensor}},
          nullptr};
}

struct PlacementDamage {
  const char* name;
  void (*damage)(const Instance&, Placement*);
};

constexpr PlacementDamage placement_damages[] = {
    {"two live buffers overlap",
     [](const Instance& i, Placement* p) { p->offsets[1] = i.buffers[0].bytes - 16; }},
    {"two live buffers at one address", [](const Instance&, Placement* p) { p->offsets[1] = 0; }},
    {"an offset is not aligned",
     [](const Instance&, Placement* p) { ++p->offsets[1], p->total_bytes += 16; }},
    {"a buffer ends beyond the total", [](const Instance&, Placement* p) { --p->total_bytes; }},
    {"an offset wraps around", [](const Instance&, Placement* p) { p->offsets[1] = ~std::uint64_t{15}; }},
    {"an offset is missing", [](const Instance&, Placement* p) { p->offsets.pop_back(); }},
};

Json damaged_placements(const PlacementDamage& kind) {
  constexpr long tries = 1000;
  long caught = 0;
  for (long seed = 0; seed < tries; ++seed) {
    const Instance instance = pair_instance(static_cast<std::uint64_t>(seed));
    Placement placement{{0, instance.buffers[0].bytes}, 2 * instance.buffers[0].bytes};
    kind.damage(instance, &placement);
    caught += !planner::check_placement(instance, placement).empty();
  }
  return {{"damage", kind.name},
          {"plan", "placement"},
          {"tried", tries},
          {"caught", caught},
          {"met", caught == tries}};
}

}  // namespace

Json measure_random(const PlannerOptions& options) {
  const std::vector<planner::ReusePolicy> policies = planner::reuse_policies();
  Json out = section("Placements of random instances, each checked",
                     {column("policy", "policy", "text"), column("placed", "placed", "count"),
                      column("refused", "refused", "count"), column("wrong", "wrong", "count"),
                      column("below_bound", "below the bound", "count"), column("met", "met", "yes")});
  const long all = options.quick ? random_instances / 10 : random_instances;
  const long each = all / static_cast<long>(policies.size()) + 1;
  Tally sum;
  for (const planner::ReusePolicy& policy : policies) {
    Tally tally;
    for (long i = 0; i < each; ++i) judge(policy, static_cast<std::uint64_t>(i), &tally);
    out["rows"].push_back({{"policy", policy.name},
                           {"placed", tally.placed},
                           {"refused", tally.refused},
                           {"wrong", tally.wrong},
                           {"below_bound", tally.below_bound},
                           {"met", tally.wrong == 0 && tally.below_bound == 0}});
    sum.placed += tally.placed;
  }
  out["notes"] = {fmt::format("{} placements in all", sum.placed)};
  return out;
}

Json measure_damage() {
  Json out = section(
      "Damaged plans, caught by the judges",
      {column("plan", "plan", "text"), column("damage", "damage", "text"), column("tried", "tried", "count"),
       column("caught", "caught", "count"), column("met", "met", "yes")});
  for (const PlacementDamage& kind : placement_damages) out["rows"].push_back(damaged_placements(kind));
  for (Json& row : damaged_steps()) out["rows"].push_back(std::move(row));
  return out;
}

}  // namespace terrace::bench
