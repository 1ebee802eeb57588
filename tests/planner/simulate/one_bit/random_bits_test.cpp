// Random steps with bits: plans by chance, by every policy, and by the joint search.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/one_bit.h"
#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/policies/gist.h"
#include "daemon/planner/simulate/program.h"
#include "tests/planner/simulate/beside_gist.h"
#include "tests/planner/simulate/one_bit/bits.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using namespace test::bits;
using Catch::Contains;
using Catch::Equals;
using wire::Action;
using wire::ScheduleEntry;

bool contains(const std::vector<std::uint32_t>& list, std::uint32_t t) {
  return std::find(list.begin(), list.end(), t) != list.end();
}

// A random step whose tensors are floating-point numbers; of most inputs the signs are enough.
wire::Trace signed_step(Random& random) {
  wire::Trace trace = random_step(random);
  const char* types[] = {"float32", "float16", "float64", "bfloat16", "int64", ""};
  for (wire::TraceTensor& t : trace.tensors)
    t.dtype = types[random() % 20 < 17 ? random() % 4 : 4 + random() % 2];
  for (wire::TraceOp& o : trace.ops) {
    for (const std::uint32_t t : o.inputs)
      if (!contains(o.outputs, t) && !contains(o.sign_only, t) && random() % 4 != 0) o.sign_only.push_back(t);
  }
  return trace;
}

Machine random_machine_with_bits(Random& random, const wire::Trace& trace) {
  Machine m = with_tier_inside(roomy_machine(random, trace), 50e6);
  m.codecs.push_back(one_bit(20e6));
  return m;
}

// Some tensors rest as bits from between two uses on; one in a hundred where it must not.
void add_bits(Random& random, const Machine& machine, const wire::Trace& trace, wire::Schedule* schedule) {
  const std::vector<std::uint32_t> until = values_needed_until(trace);
  std::vector<std::uint32_t> first(trace.tensors.size(), 0), last(first);
  for (std::uint32_t o = 0; o < trace.ops.size(); ++o) {
    for (const auto* list : {&trace.ops[o].inputs, &trace.ops[o].outputs}) {
      for (const std::uint32_t t : *list) {
        if (last[t] == 0) first[t] = o + 1;
        last[t] = o + 1;
      }
    }
  }
  for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
    const bool right = random() % 100 != 0;
    const std::uint32_t begin = right ? std::max(until[t], first[t]) : first[t];
    if (random() % 4 == 0 || begin >= last[t] || (right && one_bit_bytes(trace.tensors[t]) == 0)) continue;
    const std::uint32_t at = begin + static_cast<std::uint32_t>(random() % (last[t] - begin));
    if (right)
      std::erase_if(schedule->entries, [&](const ScheduleEntry& e) { return e.object == t && e.at >= at; });
    schedule->entries.push_back({at, t, Action::out, machine.tier_inside(), 3});
  }
  std::stable_sort(schedule->entries.begin(), schedule->entries.end(),
                   [](const ScheduleEntry& a, const ScheduleEntry& b) { return a.at < b.at; });
}

}  // namespace

TEST_CASE("Random plans with bits pass the judge under every rule, and obey the bounds") {
  std::uint32_t ran = 0, bits = 0, refused = 0, again = 0;
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    Random random(seed);
    const wire::Trace t = signed_step(random);
    const Machine m = random_machine_with_bits(random, t);
    wire::Schedule schedule = random_schedule(random, t, m, static_cast<std::uint32_t>(seed % 30));
    add_bits(random, m, t, &schedule);
    INFO("seed " << seed);
    for (const Victims victims : {Victims::none, Victims::lru, Victims::fifo, Victims::belady}) {
      SimulationOptions options;
      options.victims = victims;
      options.steps = 1 + static_cast<std::uint32_t>(seed % 2);
      options.record_timeline = true;
      const auto r = simulate(t, m, schedule, options);
      refused += r.error.find("one bit of each value") != std::string::npos ? 1 : 0;
      if (!r) continue;
      ++ran;
      const bool packed = rests_as_bits(schedule, m) && r->tier_peak_bytes.back() > 0;
      bits += packed ? 1 : 0;
      again += packed && r->recompute_us > 0 ? 1 : 0;
      REQUIRE_THAT(check_timeline(t, m, *r), Equals(""));
      REQUIRE(lower_bounds(t, m).largest_op_bytes <= m.tiers[0].capacity_bytes);
      if (options.steps == 1 && seed % 10 == 0)
        REQUIRE(step_bound(t, m, {.recomputes = true}).step_us <= r->total_us * (1 + 1e-9));
    }
  }
  CHECK(ran > 3000);
  CHECK(bits > 1000);
  CHECK(refused > 300);
  CHECK(again > 5);
}

TEST_CASE("Every policy's plan for a step with bits can be carried out, and bits let more of them fit") {
  std::uint32_t ran = 0, packed = 0, fits_only_packed = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const wire::Trace t = signed_step(random);
    Machine m = with_tier_inside(roomy_machine(random, t), 1e9);
    m.codecs.push_back(one_bit(1e9));
    Machine without = m;
    without.codecs.pop_back();
    if (!nothing_to_encode(t, m).empty()) continue;
    REQUIRE_THAT(check_trace(EncodedStep(t, m).stand_in()), Equals(""));
    for (const SwapPolicy& p : published_swap_policies()) {
      if (p.coding != Coding::as_planned) continue;
      INFO("seed " << seed << " " << p.name);
      const auto plan = swap_policy(p.name + "+gist")->plan(t, m, brief);
      if (plan)
        REQUIRE_THAT(simulate_repeated(t, m, *plan, plan->victims).error, !Contains("one bit of each value"));
      const double us = planned_us(t, m, plan);
      if (us == never_us) continue;
      ++ran;
      packed += rests_as_bits(*plan, m) ? 1 : 0;
      const double plain_us = planned_us(t, without, swap_policy(p.name + "+gist")->plan(t, without, brief));
      fits_only_packed += plain_us == never_us ? 1 : 0;
    }
  }
  CHECK(ran > 300);
  CHECK(packed > 100);
  CHECK(fits_only_packed > 20);
}

TEST_CASE("The joint search lets tensors rest as bits, and is never slower than Gist's plan") {
  SwapControl as_recorded;
  as_recorded.keeps_order = true;
  wire::Trace once = pair();
  for (wire::TraceOp& o : once.ops) o.recomputable = false;
  const auto plan = swap_policy("joint")->plan(once, with_bits(6500), as_recorded);
  INFO(plan.error);
  REQUIRE(plan);
  CHECK(rests_as_bits(*plan, with_bits(6500)));
  CHECK(planned_us(once, with_bits(6500), plan) <= 70 * (1 + 1e-9));
  BesideGist beside;
  beside.add_random(
      600, signed_step, [](Machine* m) { m->codecs.push_back(one_bit(1e9)); }, rests_as_bits);
  CHECK(beside.compared > 10);
  CHECK(beside.encoded > 10);
  CHECK(beside.ours_alone_encoded > 5);
  CHECK(beside.faster > 5);
}

}  // namespace terrace::planner
