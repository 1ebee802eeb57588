// The joint search's plans beside Gist's, step by step.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/bound/step_bound.h"
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
};

}  // namespace terrace::planner::test
