// The pure parts of a planned step: what a step looks like, how fast a link is, the plan, and the run of it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <set>

#include "liballoc/gpu/offload/plan/link_speed.h"
#include "liballoc/gpu/offload/plan/plan_maker.h"
#include "liballoc/gpu/offload/plan/plan_run.h"
#include "liballoc/gpu/offload/plan/plan_thread.h"
#include "liballoc/gpu/offload/plan/residence.h"
#include "liballoc/gpu/offload/plan/step_shape.h"
#include "tests/units.h"

using namespace terrace::liballoc::offload;

namespace {

using terrace::tests::mib;
constexpr std::uint64_t ms = 1'000'000;

// Saves all, then asks for them in the reverse order; an interval each.
StepShape step_of(const std::vector<std::uint64_t>& bytes, std::uint64_t interval_ns) {
  StepRecorder recorder;
  std::uint64_t now = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) recorder.saved(i, bytes[i], {now += interval_ns, 0});
  for (std::size_t i = bytes.size(); i-- > 0;) recorder.wanted(i, false, {now += interval_ns, 0});
  return recorder.end({now + interval_ns, 0});
}

// A link of 1 MiB in a millisecond each way.
PlanRequest request_of(StepShape shape, std::uint64_t room_bytes, std::string policy = "g10") {
  PlanRequest request;
  request.shape = std::move(shape);
  for (const std::uint64_t ns : request.shape.busy_ns)
    request.busy_us.push_back(static_cast<double>(ns) / 1e3);
  request.room_bytes = room_bytes;
  request.dram_bytes = 1024 * mib;
  request.out = request.in = {1000.0 * mib, 0};
  request.policy = std::move(policy);
  return request;
}

PlanRequest eight_tensors(std::uint64_t room_bytes, std::string policy = "g10") {
  return request_of(step_of(std::vector<std::uint64_t>(8, 4 * mib), 8 * ms), room_bytes, std::move(policy));
}

// The program and its memory, as a run has them move. What leaves has left when it is given up, or so many
// events later.
struct Played {
  explicit Played(PlanRun& played, std::size_t events = 2) : run(played), delay(events) {}

  void moves() {
    for (auto move = run.next_move(); move; move = run.next_move()) {
      const bool is_in = move->what == PlanRun::Move::What::in;
      if (is_in) CHECK(away.erase(move->number) == 1);
      if (is_in) ++ins;
      if (move->what == PlanRun::Move::What::out) leaving.push_back({move->number, event + delay}), ++outs;
      if (move->what == PlanRun::Move::What::give_up) left(move->number);
      tiers.insert(move->tier);
    }
    peak = std::max(peak, run.resident_bytes());
  }
  void left(std::uint32_t number) {
    std::erase_if(leaving, [&](const auto& each) { return each.first == number; });
    away.insert(number);
    run.gone(number);
  }
  void step(const StepShape& shape) {
    run.begin_step();
    moves();
    away.clear();
    leaving.clear();
    for (event = 1; event < shape.events.size() && run.is_following(); ++event) {
      while (!leaving.empty() && leaving.front().second <= event) left(leaving.front().first);
      const StepEvent& next = shape.events[event];
      if (!next.is_save) demanded += away.erase(next.number);
      const bool follows =
          next.is_save ? run.saved(next.number, shape.tensors[next.number].bytes) : run.wanted(next.number);
      std::erase_if(leaving, [&](const auto& each) { return !next.is_save && each.first == next.number; });
      if (follows) moves();
    }
  }

  PlanRun& run;
  const std::size_t delay;
  std::size_t event = 0, demanded = 0, outs = 0, ins = 0;
  std::uint64_t peak = 0;
  std::set<std::uint32_t> away, tiers;
  std::deque<std::pair<std::uint32_t, std::size_t>> leaving;
};

PlanRun run_of(PlanRequest request) {
  auto plan = make_plan(std::move(request));
  INFO(plan.error);
  REQUIRE(plan);
  return PlanRun(std::make_shared<const Plan>(std::move(*plan)));
}

}  // namespace

TEST_CASE("AStepIsItsSavesAndFirstRequestsAndTheTimeBetween") {
  StepRecorder recorder;
  recorder.saved(0, 10, {100, 5});
  recorder.saved(1, 20, {150, 15});
  CHECK(recorder.wanted(1, true, {170, 15}));
  CHECK_FALSE(recorder.wanted(1, false, {180, 15}));
  CHECK(recorder.wanted(0, false, {200, 30}));
  CHECK_FALSE(recorder.wanted(1, false, {210, 30}));
  const StepShape step = recorder.end({300, 30});
  REQUIRE(step.events.size() == 5);
  CHECK(step.busy_ns == std::vector<std::uint64_t>{95, 40, 20, 15, 100});
  CHECK(step.tensors[1].saved_at == 2);
  CHECK(step.tensors[1].first_wanted == 3);
  CHECK(step.tensors[1].last_wanted == 4);
  CHECK(step.tensors[1].stays);
  CHECK_FALSE(step.tensors[0].stays);
  CHECK(recorder.shape().tensors.empty());
}

TEST_CASE("StepsAreAlikeWhereSizesAndOrderAre") {
  const StepShape step = step_of({1, 2, 3}, 7);
  CHECK(step.is_like(step_of({1, 2, 3}, 9)));
  CHECK_FALSE(step.is_like(step_of({1, 2, 4}, 7)));
  CHECK_FALSE(step.is_like(step_of({1, 2}, 7)));
  StepRecorder other;
  for (std::uint64_t i = 0; i < 3; ++i) other.saved(i, i + 1, {i, 0});
  for (std::uint64_t i = 0; i < 3; ++i) other.wanted(i, false, {i, 0});
  CHECK_FALSE(step.is_like(other.end({9, 0})));
}

TEST_CASE("NumbersOutOfOrderAreNoStep") {
  StepRecorder recorder;
  recorder.saved(0, 1, {1, 0});
  SECTION("saved") { recorder.saved(2, 1, {2, 0}); }
  SECTION("asked for") { CHECK_FALSE(recorder.wanted(1, false, {2, 0})); }
  recorder.saved(1, 1, {3, 0});
  CHECK(recorder.end({4, 0}).tensors.empty());
  recorder.saved(0, 1, {5, 0});
  CHECK(recorder.end({6, 0}).tensors.size() == 1);
}

TEST_CASE("ALinksSpeedIsTheTransfersOwnTimeAndItsLatencyIsToldApart") {
  LinkSpeed speed;
  std::uint64_t now = 0;
  CHECK_FALSE(speed.is_known());
  for (int i = 0; i < 64; ++i) {
    const std::uint64_t bytes = (1 + i % 4) * mib, begun = now;
    now += 100'000 + bytes;  // 0.1 ms and a byte a nanosecond
    speed.note(bytes, begun - std::min<std::uint64_t>(begun, 50 * ms), now);  // it had waited for the others
  }
  REQUIRE(speed.is_known());
  CHECK(speed.bytes_per_second() == Approx(1e9).epsilon(0.02));
  CHECK(speed.latency_us() == Approx(100).epsilon(0.1));
  LinkSpeed even;
  for (int i = 1; i < 9; ++i) even.note(mib, i * 20 * ms, i * 20 * ms + 2 * mib);
  CHECK(even.bytes_per_second() == Approx(5e8).epsilon(0.01));
  CHECK(even.latency_us() == 0);
}

TEST_CASE("WhatTensorsTakeIsCountedFromTheirSaveToTheirLastUse") {
  Residence residence;
  const StepShape step = step_of({4, 4, 4}, 1);
  residence.begin_step(step);
  for (int i = 0; i < 3; ++i) residence.saved(4);
  CHECK(residence.bytes() == 12);
  residence.gone(0);
  residence.gone(0);
  CHECK(residence.bytes() == 8);
  residence.wanted();  // of 2
  residence.wanted();  // of 1: 2 has been used
  CHECK(residence.bytes() == 4);
  residence.back(0);
  CHECK(residence.bytes() == 8);
  CHECK(residence.peak_bytes() == 12);
}

TEST_CASE("TheTraceOfAStepHasItsIntervalsAndTheLivesOfItsTensors") {
  StepShape step = step_of({4 * mib, 2 * mib}, 3 * ms);
  step.tensors[1].stays = true;
  const auto trace = trace_of(request_of(step, 8 * mib));
  REQUIRE(trace.ops.size() == 5);
  CHECK(trace.ops[2].time_us == 3000);
  CHECK(trace.ops[0].outputs == std::vector<std::uint32_t>{0});
  CHECK(trace.ops[1].outputs == std::vector<std::uint32_t>{1});
  CHECK(trace.ops[3].inputs == std::vector<std::uint32_t>{1});
  CHECK(trace.ops[4].inputs == std::vector<std::uint32_t>{0});
  CHECK(trace.tensors[0].bytes == 4 * mib);
  CHECK(trace.tensors[1].bytes == 0);  // to move it frees nothing
}

TEST_CASE("TheDriveIsBehindTheLink") {
  PlanRequest request = eight_tensors(16 * mib);
  CHECK(machine_of(request).tiers.size() == 2);
  request.nvme_bytes = 64 * mib;
  request.drive_out = request.drive_in = {500.0 * mib, 80};
  const auto machine = machine_of(request);
  REQUIRE(machine.tiers.size() == 3);
  CHECK(machine.routes.at(1).links == std::vector<std::uint32_t>{0, 1});
  CHECK(machine.links.at(1).in_latency_us == 80);
}

TEST_CASE("WhereTheLinkHasSlackAPlanHidesItsTransfers") {
  const std::string policy = GENERATE("g10", "capuchin_swap", "sentinel_interval", "best");
  const auto plan = make_plan(eight_tensors(16 * mib, policy));
  INFO(plan.error);
  REQUIRE(plan);
  CHECK_FALSE(plan->schedule.entries.empty());
  CHECK(plan->schedule.clock == terrace::wire::Clock::saves);
  CHECK(plan->schedule.period == 17);
  if (policy == "best") CHECK(plan->schedule.predicted.step_us == Approx(17 * 8000).epsilon(0.01));
}

TEST_CASE("TheBestPlanIsNoneThatIsPredictedSlower") {
  const std::uint64_t room = GENERATE(12, 16, 24) * mib;
  const auto best = make_plan(eight_tensors(room, "best"));
  REQUIRE(best);
  for (const char* policy : {"g10", "capuchin_swap", "sentinel_interval"}) {
    const auto plan = make_plan(eight_tensors(room, policy));
    if (plan) CHECK(best->schedule.predicted.step_us <= plan->schedule.predicted.step_us);
  }
}

TEST_CASE("WhatDoesNotFitHasNoPlanAndAReason") {
  const auto plan = make_plan(eight_tensors(2 * mib));
  CHECK_FALSE(plan);
  CHECK_FALSE(plan.error.empty());
}

TEST_CASE("ARunStaysWithinItsRoomStepAfterStep") {
  const std::uint64_t room = GENERATE(12, 16, 20) * mib;
  const std::size_t delay = GENERATE(1, 2, 5);
  PlanRequest request = eight_tensors(room, GENERATE("g10", "best"));
  const StepShape shape = request.shape;
  PlanRun run = run_of(std::move(request));
  Played played(run, delay);
  for (int step = 0; step < 3; ++step) {
    played.step(shape);
    REQUIRE(run.is_following());
  }
  CHECK(played.peak <= room);
  CHECK(played.outs >= 3 * (8 * 4 * mib - room) / (4 * mib));
  CHECK(played.ins + played.demanded <= played.outs);
}

TEST_CASE("WhatIsPlannedIsBackBeforeItIsAskedFor") {
  PlanRequest request = eight_tensors(20 * mib, "best");
  const StepShape shape = request.shape;
  PlanRun run = run_of(std::move(request));
  Played played(run, 1);
  played.step(shape);
  CHECK(played.ins > 0);
  CHECK(played.demanded == 0);
}

TEST_CASE("APlanForADriveSaysWhatGoesThere") {
  PlanRequest request = eight_tensors(12 * mib);
  request.dram_bytes = 8 * mib;
  request.nvme_bytes = 64 * mib;
  request.drive_out = request.drive_in = {800.0 * mib, 0};
  const StepShape shape = request.shape;
  PlanRun run = run_of(std::move(request));
  Played played(run);
  played.step(shape);
  CHECK(played.tiers.count(2) == 1);
  CHECK(played.peak <= 12 * mib);
}

TEST_CASE("ADepartureEndsThePlanForTheStepAndNotForTheNext") {
  PlanRequest request = eight_tensors(16 * mib);
  const StepShape shape = request.shape;
  PlanRun run = run_of(std::move(request));
  run.begin_step();
  REQUIRE(run.saved(0, 4 * mib));
  SECTION("another size") { CHECK_FALSE(run.saved(1, 4 * mib + 1)); }
  SECTION("another order") { CHECK_FALSE(run.wanted(0)); }
  SECTION("a number that is not there") { CHECK_FALSE(run.wanted(77)); }
  SECTION("the caller's own") { run.depart(); }
  CHECK_FALSE(run.is_following());
  CHECK_FALSE(run.has_moves());
  CHECK_FALSE(run.saved(1, 4 * mib));
  run.gone(5);
  run.gone(77);
  Played played(run);
  played.step(shape);
  CHECK(run.is_following());
  CHECK(played.peak <= 16 * mib);
  CHECK_FALSE(run.saved(8, mib));  // behind the last event
}

TEST_CASE("WhatCameTooLateIsAskedForEarlier") {
  PlanRequest request = eight_tensors(16 * mib);
  const StepShape shape = request.shape;
  PlanRun run = run_of(std::move(request));
  std::map<std::uint32_t, std::size_t> first, second;
  const auto play = [&](std::map<std::uint32_t, std::size_t>* begun) {
    run.begin_step();
    for (std::size_t event = 1; event < shape.events.size(); ++event) {
      const StepEvent& next = shape.events[event];
      if (event > 9) run.waited();
      next.is_save ? run.saved(next.number, 4 * mib) : run.wanted(next.number);
      for (auto move = run.next_move(); move; move = run.next_move())
        if (move->what == PlanRun::Move::What::in)
          begun->emplace(move->number, event);
        else
          run.gone(move->number);
    }
  };
  play(&first);
  for (int step = 0; step < 8; ++step) play(&second), step < 7 ? second.clear() : void();
  REQUIRE_FALSE(first.empty());
  std::size_t before = 0, after = 0;
  for (const auto& [number, event] : first)
    if (second.count(number) != 0) before += event, after += second[number];
  CHECK(after <= before);
}

TEST_CASE("APlanIsMadeBesideAndThrownAwayWhenItsAskerEnds") {
  SECTION("taken once") {
    PlanThread thread;
    REQUIRE(thread.ask(eight_tensors(16 * mib)));
    std::optional<terrace::Result<Plan>> made;
    while (!(made = thread.take())) std::this_thread::yield();
    CHECK(*made);
    CHECK_FALSE(thread.take());
  }
  SECTION("destroyed while it plans") {
    PlanThread thread;
    REQUIRE(thread.ask(
        request_of(step_of(std::vector<std::uint64_t>(2000, 4 * mib), 8 * ms), 400 * mib, "best")));
  }
}
