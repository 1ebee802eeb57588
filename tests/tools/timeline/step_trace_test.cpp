// One step of a job, made of what was recorded of several.
#include "tools/cli/timeline/step_trace.h"
#include "tests/tools/says.h"
#include "tests/tools/timeline/recorded.h"
#include "tools/cli/timeline/job_machine.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <tuple>

#include "daemon/planner/trace_json.h"

using namespace terrace::cli;
using namespace terrace::cli::test;
using terrace::wire::EventKind;
using terrace::wire::Trace;

namespace {

using Indices = std::vector<std::uint32_t>;

JobEvent step_at(std::uint64_t milliseconds, std::uint64_t kind = 1, std::uint64_t events = 4) {
  return at(milliseconds, EventKind::step, kind, events);
}

// A step of 100 ms: one block of two runs from 10 to 90, and within that one of one run from 30 to 50. What
// is `added` has its times from the step's beginning on.
void add_step(std::vector<JobEvent>* events, std::uint64_t begin, std::vector<JobEvent> added = {},
              std::uint64_t kind = 1) {
  std::vector<JobEvent> step{step_at(0, kind), at(10, EventKind::alloc, here, 2 * run),
                             at(30, EventKind::alloc, there, run), at(50, EventKind::free, there, run),
                             at(90, EventKind::free, here, 2 * run)};
  step.insert(step.end(), added.begin(), added.end());
  std::stable_sort(step.begin(), step.end(),
                   [](const JobEvent& a, const JobEvent& b) { return a.time_ns < b.time_ns; });
  for (JobEvent& event : step) event.time_ns += begin * 1'000'000;
  events->insert(events->end(), step.begin(), step.end());
}

// As many steps as there are lists of what is added, and the beginning of the next.
Recording like_steps_of(const std::vector<std::vector<JobEvent>>& added) {
  std::vector<JobEvent> events;
  std::uint64_t begin = 0;
  for (const auto& more : added) {
    add_step(&events, begin, more);
    begin += 100;
  }
  events.push_back(step_at(begin));
  return recorded(events, begin + 10);
}

terrace::Result<StepTrace> traced(const Recording& recording) {
  return step_trace_of(recording, history_of(recording));
}

StepTrace trace_of(const Recording& recording) {
  auto made = traced(recording);
  INFO(made.error);
  REQUIRE(made);
  // What is made can be read again.
  const auto read = terrace::planner::parse_trace(terrace::planner::trace_json(made->trace));
  INFO(read.error);
  REQUIRE(read);
  return std::move(*made);
}

std::vector<double> times_of(const Trace& trace) {
  std::vector<double> times;
  for (const auto& op : trace.ops) times.push_back(op.time_us);
  return times;
}

}  // namespace

TEST_CASE("AStepOfKnownShapeGivesExactlyItsTrace") {
  const StepTrace made = trace_of(like_steps_of({{}, {}, {}}));
  CHECK(made.like == 3);
  CHECK(made.whole == 3);
  CHECK(made.mean_us == Approx(100'000));
  CHECK(made.mean_waited_us == 0);
  const Trace& trace = made.trace;
  CHECK(trace.name == "job");
  CHECK(says(trace.source, "3 like ones of 3 whole steps"));
  CHECK(says(trace.source, "only birth and death are known"));
  CHECK_FALSE(trace.reads_known);
  REQUIRE(trace.tensors.size() == 2);
  CHECK(trace.tensors[0].bytes == 2 * run);
  CHECK(trace.tensors[1].bytes == run);
  CHECK_FALSE(trace.tensors[0].persistent);
  CHECK_FALSE(trace.tensors[1].persistent);
  REQUIRE(times_of(trace) == std::vector<double>{10'000, 20'000, 20'000, 40'000, 10'000});
  CHECK(trace.ops[0].outputs.empty());
  CHECK(trace.ops[1].outputs == Indices{0});
  CHECK(trace.ops[1].inputs.empty());
  CHECK(trace.ops[2].outputs == Indices{1});  // and it ends with this operation
  CHECK(trace.ops[2].inputs.empty());
  CHECK(trace.ops[3].inputs == Indices{0});  // the last moment before its death
  CHECK(trace.ops[3].outputs.empty());
  CHECK(trace.ops[4].inputs.empty());
  for (const auto& op : trace.ops) CHECK_FALSE(op.recomputable);
}

TEST_CASE("TimesAreMediansOfLikeSteps") {
  std::vector<JobEvent> events;
  add_step(&events, 0);
  add_step(&events, 130);  // the first one lasts 130 ms, its last interval 40 ms
  add_step(&events, 230);
  events.push_back(step_at(330));
  CHECK(times_of(trace_of(recorded(events, 340)).trace).back() == Approx(10'000));
}

TEST_CASE("WhatWasWaitedIsNotTheOperationsTime") {
  const std::vector<JobEvent> wait{at(55, EventKind::evict, here, run), at(60, EventKind::fault, here, run),
                                   at(75, EventKind::read_done, here, run),
                                   at(80, EventKind::restore, here, run)};
  const StepTrace made = trace_of(like_steps_of({wait, wait}));
  CHECK(made.mean_us == Approx(100'000));
  CHECK(made.mean_waited_us == Approx(20'000));
  // 10 ms until the touch, 10 ms from its end on.
  REQUIRE(times_of(made.trace) == std::vector<double>{10'000, 20'000, 20'000, 10'000, 10'000, 10'000});
  CHECK(made.trace.ops[3].inputs.empty());
  CHECK(made.trace.ops[4].inputs == Indices{0});
}

TEST_CASE("WaitsOfSeveralThreadsAtOnceAreTakenOutOnce") {
  const std::vector<JobEvent> waits{
      at(55, EventKind::evict, here, run),   at(56, EventKind::evict, here + run, run),
      at(60, EventKind::fault, here, run),   at(65, EventKind::fault, here + run, run),
      at(70, EventKind::restore, here, run), at(80, EventKind::restore, here + run, run)};
  CHECK(trace_of(like_steps_of({waits, waits})).mean_waited_us == Approx(20'000));
}

TEST_CASE("WhatOneStepWasSeenToTouchIsTouchedInEach") {
  const std::vector<JobEvent> wait{at(55, EventKind::evict, here, run), at(60, EventKind::fault, here, run),
                                   at(60, EventKind::restore, here, run)};
  const Trace trace = trace_of(like_steps_of({{}, wait, {}})).trace;
  REQUIRE(trace.ops.size() == 6);
  CHECK(trace.ops[3].time_us == Approx(10'000));
  CHECK(trace.ops[3].inputs.empty());
  CHECK(trace.ops[4].inputs == Indices{0});
}

TEST_CASE("WhatCameBackBeforeItsTouchCountsAsTouchedThen") {
  const std::vector<JobEvent> back{at(55, EventKind::evict, here, run),
                                   at(70, EventKind::restore, here, run)};
  const StepTrace made = trace_of(like_steps_of({back, back}));
  CHECK(made.mean_waited_us == 0);
  REQUIRE(made.trace.ops.size() == 6);
  CHECK(made.trace.ops[3].time_us == Approx(20'000));
  CHECK(made.trace.ops[4].inputs == Indices{0});
}

TEST_CASE("AVisitLastsUntilARunHasLeftAndIsBack") {
  // Both runs of a block that was there before, at 60 and 66; then the first one anew, at 80.
  const std::uint64_t elder = 256 * run;
  std::vector<JobEvent> visits;
  for (const auto& [gone, back, address] :
       {std::tuple(55, 60, elder), std::tuple(56, 66, elder + run), std::tuple(70, 80, elder)}) {
    visits.push_back(at(static_cast<std::uint64_t>(gone), EventKind::evict, address, run));
    visits.push_back(at(static_cast<std::uint64_t>(back), EventKind::fault, address, run));
    visits.push_back(at(static_cast<std::uint64_t>(back), EventKind::restore, address, run));
  }
  Recording recording = like_steps_of({visits, visits});
  // Its end makes it one tensor.
  recording.events.push_back(at(205, EventKind::free, elder, 2 * run));
  const Trace trace = trace_of(recording).trace;
  REQUIRE(trace.tensors.size() == 3);
  CHECK(trace.tensors[2].bytes == 2 * run);
  CHECK(trace.tensors[2].persistent);
  // Until 60, from 60 to 66, to 80, and to 90; the stay from 60 to 66 is in use to the next thing that is
  // known.
  REQUIRE(trace.ops.size() == 8);
  CHECK(trace.ops[3].inputs.empty());
  CHECK(trace.ops[4].inputs == Indices{2});
  CHECK(trace.ops[4].time_us == Approx(6'000));
  CHECK(trace.ops[5].inputs == Indices{2});
  CHECK(trace.ops[6].inputs == Indices{2, 0});
}

TEST_CASE("WhatIsKnownByItsRunsAloneIsATensorForEachRun") {
  const std::uint64_t elder = 256 * run;
  std::vector<JobEvent> touches;
  for (const std::uint64_t n : {0, 1}) {
    touches.push_back(at(55 + n, EventKind::evict, elder + n * run, run));
    touches.push_back(at(60 + 5 * n, EventKind::fault, elder + n * run, run));
    touches.push_back(at(60 + 5 * n, EventKind::restore, elder + n * run, run));
  }
  const Trace trace = trace_of(like_steps_of({touches, touches})).trace;
  REQUIRE(trace.tensors.size() == 4);
  for (const std::size_t n : {2, 3}) {
    CHECK(trace.tensors[n].bytes == run);
    CHECK(trace.tensors[n].persistent);
  }
  REQUIRE(trace.ops.size() == 7);
  CHECK(trace.ops[4].inputs == Indices{2});
  CHECK(trace.ops[5].inputs == Indices{3, 0});
}

TEST_CASE("WhatIsWrittenEachTimeThatItLeavesIsUpdated") {
  const std::uint64_t elder = 256 * run;
  const auto leaves = [&](bool is_written) {
    std::vector<JobEvent> events{at(55, EventKind::evict, elder, run), at(60, EventKind::fault, elder, run),
                                 at(60, EventKind::restore, elder, run)};
    if (is_written) events.push_back(at(56, EventKind::write_done, elder, run));
    return events;
  };
  const Trace updated = trace_of(like_steps_of({leaves(true), leaves(true), leaves(true)})).trace;
  CHECK(updated.ops[4].inputs == Indices{2, 0});
  CHECK(updated.ops[4].outputs == Indices{2});
  const Trace read_only = trace_of(like_steps_of({leaves(true), leaves(false), leaves(false)})).trace;
  CHECK(read_only.ops[4].inputs == Indices{2, 0});
  CHECK(read_only.ops[4].outputs.empty());
}

TEST_CASE("WhatOutlivesItsStepIsPersistent") {
  std::vector<JobEvent> events;
  std::uint64_t begin = 0;
  for (const std::uint64_t n : {0, 1, 2, 3}) {  // each step keeps one block, elsewhere in turn
    const auto kept = [](std::uint64_t step) { return (512 + 8 * (step % 2)) * run; };
    std::vector<JobEvent> more{at(20, EventKind::alloc, kept(n), 3 * run)};
    if (n > 0) more.push_back(at(60, EventKind::free, kept(n - 1), 3 * run));
    add_step(&events, begin, more);
    begin += 100;
  }
  events.push_back(step_at(begin));
  const StepTrace made = trace_of(recorded(events, begin + 10));
  CHECK(made.whole == 4);
  CHECK(made.like == 3);  // the first one frees nothing of an earlier one
  const Trace& trace = made.trace;
  REQUIRE(trace.tensors.size() == 4);  // the kept one, and that of the step before, which both live meanwhile
  CHECK(trace.tensors[1].bytes == 3 * run);
  CHECK(trace.tensors[1].persistent);
  CHECK(trace.tensors[3].bytes == 3 * run);
  CHECK(trace.tensors[3].persistent);
  CHECK(trace.ops[2].outputs == Indices{1});
  CHECK(trace.ops[4].inputs == Indices{3});
}

TEST_CASE("WhatIsFreedBeforeItIsMadeAnewIsOneTensor") {
  std::vector<JobEvent> events;
  std::uint64_t begin = 0;
  for (const std::uint64_t n : {0, 1, 2, 3}) {
    const std::uint64_t kept = 512 * run;
    std::vector<JobEvent> more{at(60, EventKind::alloc, kept, 3 * run)};
    if (n > 0) more.push_back(at(20, EventKind::free, kept, 3 * run));
    add_step(&events, begin, more);
    begin += 100;
  }
  events.push_back(step_at(begin));
  const Trace trace = trace_of(recorded(events, begin + 10)).trace;
  REQUIRE(trace.tensors.size() == 3);
  CHECK(trace.tensors[2].bytes == 3 * run);
  CHECK(trace.tensors[2].persistent);
  CHECK(trace.ops[1].inputs == Indices{2});
  CHECK(trace.ops[5].outputs == Indices{2});
}

TEST_CASE("MemoryThatNoEventTellsOfIsPersistentToo") {
  Recording recording = like_steps_of({{}, {}});
  // At 40 ms three runs are known.
  recording.samples = {{.time_ns = ms(40), .live_bytes = 13 * run, .budget_bytes = 9 * run},
                       {.time_ns = ms(140), .live_bytes = 13 * run, .budget_bytes = 9 * run}};
  const StepTrace made = trace_of(recording);
  CHECK(made.budget_bytes == 9 * run);
  REQUIRE(made.trace.tensors.size() == 3);
  CHECK(made.trace.tensors[2].bytes == 10 * run);
  CHECK(made.trace.tensors[2].persistent);
}

TEST_CASE("TheSequenceThatCameMostOftenIsTaken") {
  const std::vector<JobEvent> more{at(70, EventKind::alloc, 512 * run, run),
                                   at(75, EventKind::free, 512 * run, run)};
  const StepTrace made = trace_of(like_steps_of({{}, more, {}, {}}));
  CHECK(made.whole == 4);
  CHECK(made.like == 3);
  CHECK(made.trace.tensors.size() == 2);
}

TEST_CASE("TheKindOfStepThatTakesMostTimeIsTaken") {
  std::vector<JobEvent> events;
  for (const std::uint64_t n : {0, 1, 2}) add_step(&events, 100 * n, {}, 1);
  for (const std::uint64_t n : {3, 4}) add_step(&events, 100 * n, {}, 2);
  events.push_back(step_at(500, 2));
  const StepTrace made = trace_of(recorded(events, 510));
  CHECK(made.kind == 1);
  CHECK(made.like == 3);
}

TEST_CASE("OneWholeStepIsTooFew") {
  const auto made = traced(like_steps_of({{}}));
  REQUIRE_FALSE(made);
  CHECK(says(made.error, "two must be seen whole"));
  CHECK(says(made.error, "--seconds"));
}

TEST_CASE("NoStepAtAllIsSaidWithWhatToDo") {
  const auto made = traced(recorded({at(1, EventKind::alloc, here, run)}));
  REQUIRE_FALSE(made);
  CHECK(says(made.error, "no step was recognised"));
  CHECK(says(made.error, "--dram"));
}

TEST_CASE("StepsThatDifferAreNoSteps") {
  std::vector<std::vector<JobEvent>> added;
  for (const std::uint64_t n : {1, 2, 3})
    added.push_back(
        {at(70, EventKind::alloc, 512 * run, n * run), at(75, EventKind::free, 512 * run, n * run)});
  const auto made = traced(like_steps_of(added));
  REQUIRE_FALSE(made);
  CHECK(says(made.error, "no two allocate and free the same"));
}

TEST_CASE("AStepWithinWhichEventsWereMissedIsLeftOut") {
  Recording recording = like_steps_of({{}, {}, {}});
  recording.missed = 5;
  recording.missed_spans = {{ms(120), ms(130)}};
  CHECK(trace_of(recording).like == 2);
  recording.missed_spans.push_back({ms(250), ms(260)});
  const auto made = traced(recording);
  REQUIRE_FALSE(made);
  CHECK(says(made.error, "missed within 2 of its 3 whole steps"));
  CHECK(says(made.error, "--threshold"));
}

TEST_CASE("AStepThatTheProgramLeftIsNotWhole") {
  std::vector<JobEvent> events;
  for (const std::uint64_t n : {0, 1}) add_step(&events, 100 * n);
  events.push_back(step_at(195, 0, 0));
  events.push_back(step_at(200));
  const auto made = traced(recorded(events));
  REQUIRE_FALSE(made);
  CHECK(says(made.error, "two must be seen whole"));
}

TEST_CASE("StepsOfAnotherUsersJobAreRefused") {
  Recording recording = recorded({});
  recording.hides_addresses = true;
  const auto made = traced(recording);
  REQUIRE_FALSE(made);
  CHECK(says(made.error, "another user's"));
}

// Whatever a daemon says, in whatever order.
TEST_CASE("AnyEventsMakeAStepOrASentence") {
  std::uint64_t state = 11;
  const auto draw = [&](std::uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  };
  int made = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<JobEvent> events;
    for (std::uint64_t i = 0; i < 200; ++i) {
      if (i % (3 + draw(4)) == 0) events.push_back(step_at(i / 2, draw(2), draw(20)));
      events.push_back(at(i / 2, static_cast<EventKind>(draw(static_cast<std::uint64_t>(EventKind::count))),
                          draw(8) == 0 ? draw(UINT64_MAX) : draw(12) * run,
                          draw(8) == 0 ? draw(UINT64_MAX) : draw(4) * run, draw(2)));
    }
    const auto trace = traced(recorded(events, 150));
    REQUIRE((trace || !trace.error.empty()));
    if (!trace) continue;
    ++made;
    const auto read = terrace::planner::parse_trace(terrace::planner::trace_json(trace->trace));
    INFO(read.error);
    REQUIRE(read);
  }
  CHECK(made > 0);
}

TEST_CASE("TheMachineHasTheSpeedsThatWereSeen") {
  Recording recording = recorded({});
  for (std::uint64_t i = 0; i <= 20; ++i)  // 50 ms each; reads of 100 MB for half a second
    recording.samples.push_back(
        {.time_ns = ms(50 * i), .read_bytes = 10'000'000 * std::min<std::uint64_t>(i, 10)});
  const JobMachine made = job_machine(recording);
  REQUIRE(made.machine.links.size() == 1);
  CHECK(made.machine.links[0].in_bytes_per_second == Approx(2e8));
  CHECK(made.machine.links[0].out_bytes_per_second == Approx(3.2e9));
  CHECK(says(made.about, "reading 0.2 GB/s, the fastest quarter of a second"));
  CHECK(says(made.about, "writing 3.2 GB/s, as the SSD of a100-ssd"));
}
