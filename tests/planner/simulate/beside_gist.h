// The joint search's plans beside Gist's, step by step.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/policies/gist.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner::test {

struct BesideGist {
  std::uint32_t compared = 0;  // steps for which Gist has a plan that can be carried out
  std::uint32_t faster = 0;    // ours, of those
  std::uint32_t ours_alone = 0, ours_alone_encoded = 0;
  std::uint32_t encoded = 0;  // of our plans

  // Fails the test where our plan is slower than Gist's, or faster than the bound. `encodes` tells whether a
  // schedule for a machine does what is being tested.
  template <class Encodes>
  void add(const wire::Trace& trace, const Machine& machine, Encodes encodes) {
    const auto ours = swap_policy("joint")->plan(trace, machine, brief);
    const double gist_us = planned_us(trace, machine, swap_policy("gist")->plan(trace, machine, brief));
    const double ours_us = planned_us(trace, machine, ours);
    const bool does = ours && encodes(*ours, machine);
    REQUIRE(ours_us <= gist_us);
    encoded += does ? 1 : 0;
    if (gist_us < never_us) {
      ++compared;
      faster += ours_us < gist_us ? 1 : 0;
    } else if (ours_us < never_us) {
      ++ours_alone;
      ours_alone_encoded += does ? 1 : 0;
    }
    if (ours_us == never_us) return;
    const StepBound bound =
        step_bound(in_order(trace, ours->operations), machine, {.recomputes = true, .repeats = true});
    REQUIRE(bound.step_us <= ours_us * (1 + 1e-9));
  }

  // Random steps of which one operation in four can run again, on a machine for each with a tier inside.
  template <class MakeStep, class AddCodec, class Encodes>
  void add_random(std::uint64_t seeds, MakeStep make_step, AddCodec add_codec, Encodes encodes) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      Random random(seed);
      wire::Trace trace = make_step(random);
      for (wire::TraceOp& o : trace.ops) o.recomputable = random() % 4 == 0;
      Machine machine = with_tier_inside(roomy_machine(random, trace), 1e9);
      add_codec(&machine);
      if (!nothing_to_encode(trace, machine).empty()) continue;
      INFO("seed " << seed);
      add(trace, machine, encodes);
    }
  }
};

}  // namespace terrace::planner::test
