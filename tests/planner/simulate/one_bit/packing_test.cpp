// Gist's plans and the joint search's drafts, which pack what is read by its signs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/joint/drafts.h"
#include "daemon/planner/simulate/joint/reordering.h"
#include "daemon/planner/simulate/policies/gist.h"
#include "daemon/planner/simulate/policies/zero_offload.h"
#include "daemon/planner/simulate/program.h"
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

}  // namespace

TEST_CASE("Gist packs what is read by signs, and the rest of what is sparse as before") {
  wire::Trace t = pair();
  t.tensors[pooled].sparsity = 0.5;
  Machine m = with_bits(20000);
  m.codecs.push_back({"zeros", 100e6, 100e6, 1, true, 0});
  const auto plan = swap_policy("gist")->plan(t, m);
  REQUIRE(plan);
  const auto codec_of = [&](std::uint32_t tensor) {
    for (const ScheduleEntry& e : plan->entries)
      if (e.object == tensor && e.action == Action::out) return e.codec;
    return 0U;
  };
  CHECK(codec_of(relu) == 1);
  CHECK(codec_of(pooled) == 0);  // is needed at once
  t.ops.insert(t.ops.begin() + 3, op(10, {}, {}));
  const EncodedStep step(t, m);
  CHECK_THAT(check_trace(step.stand_in()), Equals(""));
  REQUIRE(step.stand_in().tensors.size() == t.tensors.size() + 3);
  const wire::TraceTensor& packed = step.stand_in().tensors[t.tensors.size()];
  CHECK((packed.bytes == 100 && packed.dtype.empty()));
  t.ops[5].sign_only.clear();  // then only a sparse ReLU may rest, as it does without the codec for bits
  t.tensors[relu].sparsity = 0.5;
  const auto lossless = swap_policy("gist")->plan(t, m);
  REQUIRE(lossless);
  CHECK_FALSE(rests_as_bits(*lossless, m));
  CHECK(lossless->entries.size() == 4);
}

TEST_CASE("What a policy makes again of packed values is made again, and packed anew where it is dropped") {
  // In the stand-in encoding is operation 2, the bits are tensor 7.
  const wire::Trace t = pair();
  const Machine m = with_host(20000);
  const EncodedStep step(t, m);
  REQUIRE(step.stand_in().ops.size() == 7);
  REQUIRE(step.stand_in().tensors.size() == 8);
  CHECK(step.stand_in().ops[5].sign_only == std::vector<std::uint32_t>{7});
  SwapPlan plan;
  plan.entries = {{1, relu, Action::wait},
                  {3, 7, Action::out, 1},
                  {4, relu, Action::redo},
                  {4, relu, Action::drop},
                  {5, 7, Action::in, 1}};
  const SwapPlan made = step.translated(plan);
  const auto is = [&](std::size_t i, std::uint32_t at, Action action) {
    const ScheduleEntry& e = made.entries[i];
    return e.object == relu && e.at == at && e.action == action && (action != Action::out || e.codec == 1) &&
           (action != Action::out || e.tier == 2);
  };
  REQUIRE(made.entries.size() == 5);
  CHECK(is(0, 1, Action::wait));
  CHECK(is(1, 2, Action::out));
  CHECK(is(2, 3, Action::drop));
  CHECK(is(3, 3, Action::redo));
  CHECK(is(4, 3, Action::out));
}

TEST_CASE("Gist says what it lacks for bits, too") {
  const auto why = [](const wire::Trace& trace, const Machine& machine) {
    return swap_policy("gist")->plan(trace, machine).error;
  };
  Machine m = with_bits(20000);
  m.routes.clear();
  CHECK_THAT(why(pair(), m), Contains("no codec that drops zeros"));
  wire::Trace t = pair();
  for (wire::TraceOp& o : t.ops) o.sign_only.clear();
  CHECK_THAT(why(t, with_bits(20000)), Contains("sign_only"));
  t = pair();
  t.tensors[relu].dtype.clear();
  CHECK_THAT(why(t, with_bits(20000)), Contains("sign_only"));
}

TEST_CASE("Other orders, variants and a half of ZeRO-Offload's steps keep what operations say of signs") {
  wire::Trace t = pair();
  t.ops[5].variants = {{"fast", 5, 0}};
  const std::vector<std::uint32_t> order{0, 1, 2, 3, 4, 5};
  CHECK(in_order(t, order).ops[4].sign_only == t.ops[4].sign_only);
  const Machine m = with_bits(6500);
  wire::Schedule schedule = by_hand({bits_of_relu});
  schedule.variants = {{5, 1}};
  schedule.operations = order;
  SimulationOptions options;
  options.record_timeline = true;
  const auto r = simulate(t, m, schedule, options);
  INFO(r.error);
  REQUIRE(r);
  CHECK(r->total_us == Approx(65));
  CHECK_THAT(check_timeline(t, m, *r), Equals(""));

  wire::Trace trained = pair();
  trained.tensors.push_back({7, 400, wire::TensorKind::weight, true, {}, "float32", {}});
  trained.tensors.push_back({8, 400, wire::TensorKind::gradient, false, {}, "float32", {}});
  trained.tensors.push_back({9, 800, wire::TensorKind::optimizer, true, {}, "float32", {}});
  trained.ops[5].outputs.push_back(8);
  trained.ops.push_back(op(10, {7, 8, 9}, {7, 9}));
  Machine cpu = with_host(40000);
  cpu.tiers[1].update_bytes_per_second = 1e6;
  const auto delayed = offload_update(trained, cpu, true);
  INFO(delayed.error);
  REQUIRE(delayed);
  CHECK_THAT(check_trace(delayed->trace), Equals(""));
  CHECK(std::count_if(delayed->trace.ops.begin(), delayed->trace.ops.end(),
                      [](const wire::TraceOp& o) { return !o.sign_only.empty(); }) == 4);
}

TEST_CASE("A draft packs over all later gaps, at once and as a plan that is read has it") {
  using joint::Choice;
  using joint::Way;
  const wire::Trace t = pair();
  const Machine m = with_bits(6500);
  const joint::Drafts drafts(t, m);
  const auto of = [](const joint::Choices& choices, std::uint32_t tensor, std::uint32_t from) {
    const auto found = std::find_if(choices.begin(), choices.end(), [&](const Choice& c) {
      return c.gap.tensor == tensor && c.gap.from == from;
    });
    REQUIRE(found != choices.end());
    return *found;
  };
  // Memory is short behind the gap alone.
  const joint::Choices made = drafts.construct(0, true);
  CHECK(of(made, relu, 1).codec == 1);
  CHECK(simulate(t, m, drafts.schedule(made, {})));
  const wire::Schedule by_gist = *swap_policy("gist")->plan(t, m);
  const joint::Choices read = drafts.read(by_gist, timeline_of(t, m, by_gist.entries));
  CHECK(of(read, relu, 1).codec == 1);
  CHECK(drafts.schedule(read, {}).entries.size() == 1);

  // A second gap, in which memory stays short: of a machine with a host it might move.
  wire::Trace later = t;
  later.tensors.push_back(values(9000));
  later.tensors.back().id = 7;
  later.ops.insert(later.ops.begin() + 5, op(10, {relu_gradient}, {7}));
  const Machine short_of = with_bits(6500), host = with_host(9000);
  const joint::Choices twice = joint::Drafts(later, short_of).construct(0, true);
  CHECK(of(twice, relu, 1).codec == 1);
  CHECK(of(twice, relu, 4).way == Way::stays);
  const joint::Drafts moving(later, host);
  joint::Choices choices = moving.all_stay();
  for (Choice& c : choices) {
    if (c.gap.tensor == relu) moving.move(&c, c.gap.from == 1 ? 2 : 1, c.gap.from == 1 ? 1 : 0);
  }
  const wire::Schedule schedule = moving.schedule(choices, {});
  REQUIRE(schedule.entries.size() == 1);
  CHECK((schedule.entries[0].tier == 2 && schedule.entries[0].codec == 1));
}

TEST_CASE("A draft leaves no bits of what is made again from, and none where another order reads values") {
  using joint::Choice;
  using joint::Way;
  // Pooling's output rests over an operation that needs much, and is made again from ReLU's.
  wire::Trace t = step({values(100), values(3200), values(800), values(100), values(2600),
                        values(800, wire::TensorKind::gradient), values(400, wire::TensorKind::gradient)},
                       {op(10, {0}, {1}), op(10, {1}, {2}), op(10, {2}, {3}), op(10, {}, {4}),
                        op(10, {4}, {}), op(10, {2, 3}, {5}), reading_signs(op(10, {1, 5}, {6}), {1})});
  const Machine m = with_bits(5000);
  const auto way_of = [](const joint::Choices& choices, std::uint32_t tensor) {
    const auto found =
        std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.gap.tensor == tensor; });
    REQUIRE(found != choices.end());
    return found->way;
  };
  const joint::Drafts drafts(t, m);
  CHECK(way_of(drafts.construct(1, true), 2) == Way::made_again);
  CHECK(way_of(drafts.construct(1, true), 1) == Way::stays);
  CHECK(way_of(drafts.construct(0, true), 1) == Way::moves);

  wire::Trace reads = t;
  reads.ops.insert(reads.ops.begin() + 5, op(10, {1}, {}));  // may come before the others or after them
  const std::vector<std::uint32_t> early{0, 1, 5, 2, 3, 4, 6, 7}, late{0, 1, 2, 3, 4, 6, 7, 5};
  const wire::Trace early_step = in_order(reads, early), late_step = in_order(reads, late);
  const joint::Drafts first(early_step, m), second(late_step, m);
  joint::Choices choices = first.all_stay();
  for (Choice& c : choices)
    if (c.gap.tensor == 1 && first.codec_inside(c) != 0) first.encode(&c);
  REQUIRE(rests_as_bits(first.schedule(choices, {}), m));
  CHECK_FALSE(rests_as_bits(second.schedule(joint::carried_over(choices, early, second, late), {}), m));
}

}  // namespace terrace::planner
