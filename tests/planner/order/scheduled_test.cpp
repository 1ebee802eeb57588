// Schedules that run the operations in an order of their own: what they cost, who refuses which, and that the
// judge sees through an order that breaks a dependency.
#include "daemon/planner/order/scheduled.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "daemon/planner/machine_json.h"
#include "daemon/planner/order/order.h"
#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/perfetto.h"
#include "liballoc/wire/schedule/image.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;
using Catch::Contains;
using Catch::Equals;

// 0 makes a, 1 and 2 read it, 3 overwrites it, 4 reads that and what 1 and 2 made, 5 overwrites it once more.
wire::Trace overwriting() {
  wire::Trace t =
      step({tensor(100), tensor(10), tensor(20)}, {op(10, {}, {0}), op(20, {0}, {1}), op(30, {0}, {2}),
                                                   op(40, {}, {0}), op(50, {0, 1, 2}, {}), op(60, {}, {0})});
  for (std::size_t i = 0; i < t.ops.size(); ++i) t.ops[i].name = std::string(1, static_cast<char>('A' + i));
  return t;
}

wire::Schedule in(Order operations) {
  wire::Schedule s{"step", "by hand", {}};
  s.operations = std::move(operations);
  return s;
}

// The timeline of the step in that order, which is a good one of the step in that order, told of the step.
std::string verdict_on(const wire::Trace& t, const Order& order) {
  SimulationOptions options;
  options.record_timeline = true;
  const Machine m = two_tiers(1000);
  auto report = simulate(reorder(t, order), m, {}, options);
  INFO(report.error);
  REQUIRE(report);
  REQUIRE_THAT(check_timeline(reorder(t, order), m, *report), Equals(""));
  report->operations = order;
  return check_timeline(t, m, *report);
}

// Any topological order, each with some chance.
Order random_order(Random& random, const wire::Trace& trace) {
  const Dependencies graph = dependencies_of(trace);
  std::vector<std::size_t> waits;
  std::vector<std::uint32_t> ready;
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    waits.push_back(graph.before[op].size());
    if (waits[op] == 0) ready.push_back(op);
  }
  Order order;
  while (!ready.empty()) {
    const std::size_t next = random() % ready.size();
    order.push_back(ready[next]);
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(next));
    for (const std::uint32_t after : graph.after[order.back()])
      if (--waits[after] == 0) ready.push_back(after);
  }
  return order;
}

}  // namespace

TEST_CASE("An order that breaks a dependency is refused by its place, and so is one that is none") {
  const wire::Trace t = overwriting();
  const auto why = [&](Order order) { return simulate(t, two_tiers(1000), in(std::move(order))).error; };
  CHECK(why({0, 2, 1, 3, 4, 5}).empty());
  CHECK(why({}).empty());
  CHECK(why({1, 0, 2, 3, 4, 5}) == "operations[0]: operation 1 runs before operation 0, on which it depends");
  CHECK_THAT(why({0, 1, 3, 2, 4, 5}), Contains("operation 3 runs before operation 2"));
  CHECK_THAT(why({0, 1, 2, 3, 5, 4}), Contains("operation 5 runs before operation 4"));
  CHECK(why({0, 1, 1, 3, 4, 5}) == "operations[2]: operation 1 stands there twice");
  CHECK(why({0, 1, 6, 3, 4, 5}) == "operations[2]: there is no operation 6");
  CHECK_THAT(why({0, 1, 2}), Contains("3 stand there, and the step has 6"));
  wire::Trace unknown = t;
  unknown.reads_known = false;
  CHECK_THAT(simulate(unknown, two_tiers(1000), in({0, 2, 1, 3, 4, 5})).error,
             Contains("does not say what its operations read"));
}

TEST_CASE("The judge catches an order that breaks a dependency, of each kind") {
  const wire::Trace t = overwriting();
  CHECK(verdict_on(t, {0, 1, 2, 3, 4, 5}).empty());
  CHECK(verdict_on(t, {0, 2, 1, 3, 4, 5}).empty());
  CHECK_THAT(verdict_on(t, {0, 1, 3, 2, 4, 5}), Contains("operation 2") && Contains("overwritten"));
  CHECK_THAT(verdict_on(t, {0, 1, 2, 4, 3, 5}), Contains("operation 4") && Contains("before it is written"));
  const wire::Trace twice = step({tensor(10)}, {op(1, {}, {0}), op(1, {}, {0}), op(1, {0}, {})});
  CHECK_THAT(verdict_on(twice, {1, 0, 2}), Contains("operation 1") && Contains("another turn"));
  const wire::Trace in_place = step({tensor(10)}, {op(1, {}, {0}), op(1, {0}, {0}), op(1, {0}, {0})});
  CHECK_THAT(verdict_on(in_place, {0, 2, 1}), Contains("operation 2") && Contains("before it is written"));
}

TEST_CASE("The judge catches an order that is none, and one of a step whose reads are not known") {
  const wire::Trace t = overwriting();
  const Machine m = two_tiers(1000);
  SimulationOptions options;
  options.record_timeline = true;
  const auto right = simulate(t, m, in({0, 2, 1, 3, 4, 5}), options);
  REQUIRE(right);
  CHECK(check_timeline(t, m, *right).empty());
  const auto verdict = [&](Order told) {
    SimulationReport damaged = *right;
    damaged.operations = std::move(told);
    return check_timeline(t, m, damaged);
  };
  CHECK_THAT(verdict({0, 1, 2, 3, 4, 5}), Contains("did not take its time"));
  CHECK_THAT(verdict({}), Contains("did not take its time"));
  CHECK_THAT(verdict({0, 2, 2, 3, 4, 5}), Contains("operation 1 is missing"));
  CHECK_THAT(verdict({0, 0, 1, 2, 3, 4}), Contains("operation 0 is told to have run twice"));
  CHECK_THAT(verdict({0, 2, 7, 3, 4, 5}), Contains("is missing"));
  CHECK_THAT(verdict({0, 2}), Contains("an order of 2 operations"));
  wire::Trace unknown = t;
  unknown.reads_known = false;
  CHECK_THAT(check_timeline(unknown, m, *right), Contains("reads are not known"));
}

TEST_CASE("A schedule with an order is the same schedule of the reordered step") {
  std::uint32_t reordered = 0, ran = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Order order = random_order(random, t);
    REQUIRE(is_topological(dependencies_of(t), order));
    REQUIRE(check_operations(t, order).empty());
    const wire::Trace other = reorder(t, order);
    const Machine m = roomy_machine(random, other);
    wire::Schedule s = random_schedule(random, other, m, 20);
    SimulationOptions options{Victims::belady, StallRule::strict, 2, true, 0};
    const auto expected = simulate(other, m, s, options);
    s.operations = order;
    const auto found = simulate(t, m, s, options);
    INFO("seed " << seed << " " << found.error);
    REQUIRE(expected.error == found.error);
    if (!found) continue;
    ++ran;
    reordered += moved_operations(order) > 0 ? 1 : 0;
    REQUIRE_THAT(check_timeline(t, m, *found), Equals(""));
    REQUIRE(found->operations == order);
    REQUIRE(found->total_us == expected->total_us);
    REQUIRE(found->tier_peak_bytes == expected->tier_peak_bytes);
    REQUIRE(found->bounds.step_us == expected->bounds.step_us);
    REQUIRE(found->bounds.max_live_bytes == expected->bounds.max_live_bytes);
    REQUIRE(found->transfers.size() == expected->transfers.size());
    REQUIRE(found->stalls.total_us() == expected->stalls.total_us());
  }
  CHECK(ran > 100);
  CHECK(reordered > 100);
}

TEST_CASE("Variants name operations of the trace, whatever the order") {
  wire::Trace t = overwriting();
  t.ops[1].variants = {{"slow", 200, 10}};
  t.ops[2].variants = {{"slow", 300, 10}};
  wire::Schedule s = in({0, 2, 1, 3, 4, 5});
  s.variants = {{1, 1}};
  SimulationOptions options;
  options.record_timeline = true;
  const auto r = simulate(t, two_tiers(1000), s, options);
  REQUIRE(r);
  CHECK(r->ops[1].end_us - r->ops[1].start_us == 30);
  CHECK(r->ops[2].end_us - r->ops[2].start_us == 200);
  CHECK((r->variants.size() == 1 && r->variants[0].op == 1));
  CHECK_THAT(check_timeline(t, two_tiers(1000), *r), Equals(""));
  CHECK(r->bounds.compute_us == 210);
  s.variants = {{1, 1}, {2, 1}};
  CHECK(simulate(t, two_tiers(1000), s)->total_us == 10 + 300 + 200 + 40 + 50 + 60);
}

TEST_CASE("Bounds beside an order are of that order") {
  // In its own order both 100 live together; one after the other they never do.
  const wire::Trace t =
      step({tensor(100), tensor(100)}, {op(10, {}, {0}), op(10, {}, {1}), op(10, {0}, {}), op(10, {1}, {})});
  const Machine m = two_tiers(100);
  CHECK_FALSE(simulate(t, m, {}));
  const auto r = simulate(t, m, in({0, 2, 1, 3}));
  REQUIRE(r);
  CHECK((r->total_us == 40 && r->bounds.max_live_bytes == 100 && r->bounds.step_us == 40));
  CHECK((lower_bounds(t, m).max_live_bytes == 200 && lower_bounds(t, m).step_us > 40));
}

TEST_CASE("An order stands in version 4 of a schedule, and everything counts by it") {
  const wire::Trace t =
      step({tensor(100), tensor(100)}, {op(10, {}, {0}), op(10, {}, {1}), op(10, {0}, {}), op(10, {1}, {})});
  const Machine m = two_tiers(100);
  wire::Schedule s{t.name, "by hand", {{3, 1, wire::Action::out, 1, 0}, {3, 1, wire::Action::in, 1, 0}}};
  s.operations = {0, 2, 1, 3};
  const std::string text = schedule_json(s, t, m);
  CHECK_THAT(text, Contains("\"version\":4") && Contains("\"operations\":[0,2,1,3]"));
  const auto back = parse_schedule(text, t, m);
  INFO(back.error);
  REQUIRE(back);
  CHECK(back->operations == s.operations);
  CHECK(back->objects[1].birth == 2);
  CHECK(back->entries[1].by == 3);
  CHECK(back->period_hash == period_hash(t));
  CHECK(schedule_json(*back, t, m) == text);
  s.operations.clear();
  CHECK_THAT(schedule_json(s, t, m), Contains("\"version\":2") && !Contains("operations\":["));
}

TEST_CASE("Orders in files that are none are refused by their place") {
  const wire::Trace t = overwriting();
  const auto why = [&](const std::string& fields, const wire::Trace& of) {
    return parse_schedule(R"({"format":"terrace-schedule","version":4,"trace":")" + of.name + "\"," + fields +
                              R"(,"entries":[]})",
                          of, two_tiers(1000))
        .error;
  };
  const auto order = [&](const std::string& list) { return why("\"operations\":" + list, t); };
  CHECK(order("[0,2,1,3,4,5]").empty());
  CHECK(order("[0,2,2,3,4,5]") == "operations[2]: operation 2 stands there twice");
  CHECK_THAT(order("[0,2,1,3,4]"), Contains("5 stand there, and the step has 6"));
  CHECK_THAT(order("[0,2,1,3,4,5,0]"), Contains("operations: more than the 6"));
  CHECK_THAT(order("[0,2,6,3,4,5]"), Contains("operations[2]: expected the number of an operation"));
  CHECK_THAT(order("[0,2,-1,3,4,5]"), Contains("operations[2]: expected the number"));
  CHECK_THAT(order("[0,2,1.5,3,4,5]"), Contains("operations[2]: expected the number"));
  CHECK_THAT(order("7"), Contains("operations: expected a list"));
  CHECK_THAT(order("[1,0,2,3,4,5]"), Contains("operation 1 runs before operation 0"));
  CHECK_THAT(order("[0,1,3,2,4,5]"), Contains("operation 3 runs before operation 2"));
  // The order may stand behind what counts by it.
  const std::string birth = R"("objects":[{"tensor":1,"bytes":10,"birth":2}])";
  CHECK(why(birth + R"(,"operations":[0,2,1,3,4,5])", t).empty());
  CHECK_THAT(why(birth, t), Contains("objects[0].birth: in the trace it is 1"));
  CHECK_THAT(why(R"("operations":[0,2,1,3,4,5],"objects":[{"tensor":1,"bytes":10,"birth":1}])", t),
             Contains("objects[0].birth") && Contains("order of operations") && Contains("it is 2"));
  wire::Trace unknown = t;
  unknown.reads_known = false;
  CHECK_THAT(why("\"operations\":[0,2,1,3,4,5]", unknown), Contains("leave operations out"));
}

TEST_CASE("No job is given a schedule with an order of its own: it runs its operations as it does") {
  wire::Schedule s = in({1, 0});
  s.period = 2;
  CHECK_THAT(wire::schedule_image(s, {"gpu", "host"}, {}).error, Contains("order of its own"));
  s.operations.clear();
  CHECK(wire::schedule_image(s, {"gpu", "host"}, {}).error.find("order of its own") == std::string::npos);
}

TEST_CASE("A timeline names operations as the trace does") {
  const wire::Trace t = overwriting();
  SimulationOptions options;
  options.record_timeline = true;
  const auto r = simulate(t, two_tiers(1000), in({0, 2, 1, 3, 4, 5}), options);
  REQUIRE(r);
  const std::string text = perfetto_json(t, two_tiers(1000), *r);
  const std::size_t c = text.find("\"C\""), b = text.find("\"B\"");
  REQUIRE((c != std::string::npos && b != std::string::npos));
  const std::string of_c = text.substr(c, 160);
  CHECK_THAT(of_c, Contains("\"op\":2") && Contains("10"));
}

TEST_CASE("What frees memory runs early") {
  // Two gradients, whose updates stand at the end.
  const wire::Trace t =
      step({tensor(50), tensor(60), tensor(5, true)},
           {op(1, {}, {0}), op(1, {}, {1}), op(1, {}, {}), op(1, {1}, {2}), op(1, {0}, {2})});
  // The second update writes what the first one writes, so it waits for it.
  CHECK(frees_early(t) == Order{0, 1, 3, 4, 2});
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const wire::Trace any = random_step(random);
    REQUIRE(is_topological(dependencies_of(any), frees_early(any)));
  }
}

}  // namespace terrace::planner
