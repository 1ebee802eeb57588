#include "daemon/planning/period_step.h"

#include <catch2/catch.hpp>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "tests/daemon/planning/made_periods.h"

namespace terrace::daemon {
namespace {

using tests::PeriodMaker;
using Names = std::vector<std::uint32_t>;

// The image has to outlive its view.
struct Opened {
  std::string image;
  wire::OpenedPeriod opened;
  explicit Opened(const wire::PeriodDraft& draft)
      : image(tests::image_of(draft)), opened(wire::open_period(std::as_bytes(std::span(image)))) {
    REQUIRE(opened);
  }
  PeriodStep step() const { return step_of(opened.view); }
};

std::vector<std::uint64_t> workspaces(const wire::Trace& trace) {
  std::vector<std::uint64_t> bytes;
  for (const wire::TraceOp& op : trace.ops) bytes.push_back(op.workspace_bytes);
  return bytes;
}

}  // namespace

TEST_CASE("An interval is an operation and what it touches is named") {
  PeriodMaker p;
  const auto kept = p.keep(1000);
  const auto a = p.allocate(10, 3000);
  p.use(a, true);
  const auto b = p.allocate(20, 4000);
  p.use(a);
  p.use(b, true);
  p.free(b, 5000);
  p.use(kept, true);
  p.free(a, 6000);
  const PeriodStep step = Opened(p.draft(1 << 20)).step();
  const wire::Trace& trace = step.trace;
  REQUIRE(trace.ops.size() == 4);
  REQUIRE(trace.tensors.size() == 3);
  CHECK(step.begin == 0);
  CHECK(trace.ops[1].time_us == 4);
  CHECK(trace.ops[0].inputs.empty());
  CHECK(trace.ops[0].outputs == Names{0});
  CHECK(trace.ops[1].inputs == Names{0});
  CHECK(trace.ops[1].outputs == Names{1});
  CHECK(trace.ops[2].inputs == Names{2});
  CHECK(trace.ops[2].outputs == Names{2});
  CHECK(trace.ops[3].inputs.empty());
  CHECK(trace.tensors[2].persistent);
  CHECK_FALSE(trace.reads_known);
  CHECK_FALSE(trace.ops[0].recomputable);
  CHECK(step.objects[1].birth == 1);
  CHECK(step.objects[2].birth == wire::persistent);
}

TEST_CASE("What waits for its death takes memory until then and is named no more") {
  PeriodMaker p;
  const auto a = p.allocate(10, 1000);
  const auto unknown = p.allocate(500, 1000);  // no use is known
  p.use(a);
  p.free(unknown, 1000);
  p.allocate(7, 1000);  // never freed
  p.free(a, 1000);
  const PeriodStep step = Opened(p.draft(1 << 20)).step();
  REQUIRE(step.trace.tensors.size() == 1);
  CHECK(workspaces(step.trace) == std::vector<std::uint64_t>{0, 500, 10, 17, 7});
  // So all that lives is counted, and there is no gap before the death that a policy might fill.
  CHECK(planner::resident_bytes(step.trace) == std::vector<std::uint64_t>{10, 510, 10, 17, 7});
  CHECK(planner::gaps_of(step.trace).empty());
}

TEST_CASE("What persists and has no known use makes the fastest tier smaller") {
  PeriodMaker p;
  p.keep(100);
  p.use_in(p.keep(30), 0);
  p.allocate(1, 1000);
  const PeriodStep step = Opened(p.draft(1 << 20)).step();
  CHECK(step.always_bytes == 100);
  REQUIRE(step.trace.tensors.size() == 1);
  CHECK(step.objects[0].place == 1);
}

TEST_CASE("A step begins where what lives over the period's end has been freed") {
  const auto shape = tests::TrainingShape{.layers = 4, .frees_gradients_in_next_step = true};
  const Opened period(tests::training_step(shape).draft(1 << 30));
  const PeriodStep step = period.step();
  CHECK(step.begin == 3);  // the last free of a gradient
  for (const wire::PeriodObject& o : period.opened.view.objects) {
    if (o.birth == wire::persistent || o.uses == 0) continue;
    const bool is_tensor = std::any_of(step.objects.begin(), step.objects.end(),
                                       [&](const auto& named) { return named.birth == o.birth; });
    CHECK(is_tensor);
  }
  CHECK(step.trace.ops[1].outputs.size() == 1);  // the first activation
}

TEST_CASE("What lives over every beginning is in use all its life") {
  PeriodMaker q;
  const auto a = q.allocate(10, 1000);
  const auto b = q.allocate(20, 1000);
  q.free(a, 1000);
  const std::uint32_t frees_c = q.free_of_last_period(1000);
  const auto c = q.allocate(30, 1000);
  const std::uint32_t frees_b = q.free_of_last_period(1000);
  q.dies_in_next(b, frees_b);
  q.dies_in_next(c, frees_c);  // in the next period
  q.use_in(a, 0, true);
  q.use_in(b, 1, true);
  q.use_in(c, 4, true);
  q.use_in(c, 1);
  const PeriodStep step = Opened(q.draft(1 << 20)).step();
  CHECK(step.begin == 3);  // 20 bytes live there and before 4, and 30 or more elsewhere
  CHECK(step.trace.tensors.size() == 2);
  // Operations are intervals 3, 4, 5, 0, 1, 2; b lives from 1 to 4, and a and c wait for their deaths.
  CHECK(workspaces(step.trace) == std::vector<std::uint64_t>{20, 20, 0, 0, 30, 50});
}

TEST_CASE("Entries of a step that begins late are put back into the period's order") {
  const auto shape = tests::TrainingShape{.layers = 4, .frees_gradients_in_next_step = true};
  const Opened period(tests::training_step(shape).draft(1 << 30));
  const PeriodStep step = period.step();
  const auto events = static_cast<std::uint32_t>(step.trace.ops.size());
  const auto at = [&](std::uint32_t ordinal, std::uint32_t by) {
    wire::ScheduleEntry e;
    e.at = ordinal;
    e.by = by;
    return e;
  };
  wire::Schedule s{
      "", "", {at(0, 1), at(events - 4, events - 1), at(events - 3, events + 2), at(events, events)}};
  turn_into_period(step, &s);
  REQUIRE(s.entries.size() == 4);
  CHECK((s.entries[0].at == 0 && s.entries[0].by == 5));
  CHECK((s.entries[1].at == 3 && s.entries[1].by == 3));  // the step's end, before its beginning
  CHECK((s.entries[2].at == 3 && s.entries[2].by == 4));
  CHECK((s.entries[3].at == events - 1 && s.entries[3].by == events + 2));
  CHECK(s.clock == wire::Clock::allocations);
  CHECK(s.period == events);
  CHECK(s.period_hash == 0xfeedbeefcafe);
}

}  // namespace terrace::daemon
