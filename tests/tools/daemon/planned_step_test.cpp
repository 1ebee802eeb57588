// What is read of a plan that a daemon tells of, and why a planned step is slow.
#include "tools/cli/daemon/planned_step.h"

#include <catch2/catch.hpp>

#include "tests/tools/says.h"
#include "tools/cli/daemon/snapshot.h"

using namespace terrace::cli;
using nlohmann::json;

namespace {

json process() {
  return {{"policy", "g10"},
          {"plan",
           {{"phase", 2},
            {"entries", 312},
            {"predicted_step_seconds", 2.0},
            {"budget_bytes", 4096},
            {"tier_peak_bytes", {4000, 9000}}}}};
}

// A row of which a second's waits are `pool` for data and `room` for room.
json rates(double late, double unplanned, double stall) {
  json row = process();
  row.update({{"planned_late", late},
              {"unplanned_faults", unplanned},
              {"stall_seconds", stall},
              {"step_seconds", 2.5}});
  return row;
}

StallCauses waiting(double pool_seconds) { return {pool_seconds, 0, 0, 5}; }

}  // namespace

TEST_CASE("APlanThatADaemonTellsOfIsRead") {
  const PlannedStep planned = planned_step_of(process());
  CHECK(planned.policy == "g10");
  CHECK(planned.phase == 2);
  CHECK(planned.entries == 312);
  CHECK(planned.step_seconds == 2.0);
  CHECK(planned.budget_bytes == 4096);
  CHECK(planned.tier_peak_bytes == std::vector<std::uint64_t>{4000, 9000});
}

TEST_CASE("WhatIsNoPlanCountsAsNone") {
  for (const json& other : {json(nullptr), json::object(), json::array(), json{{"plan", 7}, {"policy", 3}},
                            json{{"plan", nullptr}}}) {
    CHECK_FALSE(planned_step_of(other).is_told());
    CHECK(planned_text(other.is_object() ? other : json::object(), {}, true).empty());
  }
  json odd = process();
  odd["plan"]["predicted_step_seconds"] = -1;
  odd["plan"]["tier_peak_bytes"] = {"much", 1.5, 7};
  CHECK(planned_step_of(odd).step_seconds == 0);
  CHECK(planned_step_of(odd).tier_peak_bytes == std::vector<std::uint64_t>{7});
}

TEST_CASE("OfAJobTheProcessThatHasAPlanSpeaks") {
  const json shell{{"pid", 1}};
  const json loader{{"policy", "g10"}, {"plan_refusal", "no period is known"}};
  CHECK(planned_step_of_job({shell, loader, process()}).entries == 312);
  CHECK(planned_step_of_job({shell, loader}).reason == "no period is known");
  CHECK_FALSE(planned_step_of_job(json::array({shell})).is_told());
}

TEST_CASE("AJobsRowHasThePlanOfItsLargestProcess") {
  json large = process();
  large["statistics"] = {{"heap_live_bytes", 1000}};
  const json small{{"statistics", {{"heap_live_bytes", 10}}}, {"plan_refusal", "no period is known"}};
  const json status{{"jobs", {{{"job", "train"}, {"sessions", {small, large}}}}}};
  const Rows rows = job_rows(status);
  REQUIRE(rows.size() == 1);
  CHECK(planned_step_of(rows.front()) == planned_step_of(process()));
}

TEST_CASE("APlanStandsBesideWhatTheStepTakes") {
  const std::string text = planned_text(rates(0, 0, 0), {}, true);
  CHECK(text == "g10 planned a step of 2 s, and one takes 2.5 s (+25.0%)");
  json without_steps = rates(0, 0, 0);
  without_steps.erase("step_seconds");
  CHECK(planned_text(without_steps, {}, true) == "g10 planned a step of 2 s");
}

TEST_CASE("WithoutAPlanTheReasonIsSaid") {
  CHECK(planned_text({{"policy", "g10"}, {"plan_refusal", "the budget suffices"}}, {}, true) ==
        "not planned: the budget suffices");
  CHECK(planned_text({{"policy", "reactive"}}, {}, true) == "reactive plans nothing");
}

TEST_CASE("TheCauseThatWaitsMostIsNamed") {
  CHECK(says(planned_text(rates(9, 1, 0.4), waiting(0.4), true), "mostly for planned reads that came late"));
  CHECK(says(planned_text(rates(1, 9, 0.4), waiting(0.4), true), "mostly for faults that no plan foresaw"));
  const std::string room = planned_text(rates(9, 1, 0.4), waiting(0.1), true);
  CHECK(says(room, "mostly for room"));
  CHECK(says(room, "(late 9/s, not planned 1/s, for room 30.0% of the time)"));
}

TEST_CASE("WaitsAreSharedByNumber") {
  const SlowStep slow = slow_step(rates(3, 1, 0.5), waiting(0.4), true);
  CHECK(slow.late_seconds == Approx(0.3));
  CHECK(slow.unplanned_seconds == Approx(0.1));
  CHECK(slow.room_seconds == Approx(0.1));
  // Where events were missed, what is left over is no cause.
  CHECK(slow_step(rates(3, 1, 0.5), waiting(0.4), false).room_seconds == 0);
  // Waits that no counter tells apart are unplanned ones.
  CHECK(slow_step(rates(0, 0, 0.5), waiting(0.4), true).unplanned_seconds == Approx(0.4));
}

TEST_CASE("NoCauseIsNamedWhereNobodyWaitsOrMayKnow") {
  CHECK_FALSE(says(planned_text(rates(9, 1, 0.005), waiting(0.005), true), "mostly"));
  StallCauses hidden;
  hidden.is_hidden = true;
  CHECK_FALSE(says(planned_text(rates(9, 1, 0.4), hidden, true), "mostly"));
}
