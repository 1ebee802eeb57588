// Tensors that rest as one bit a value: what may, the account of them by hand, and who refuses the others.
#include "daemon/planner/one_bit.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/joint/drafts.h"
#include "daemon/planner/simulate/joint/reordering.h"
#include "daemon/planner/simulate/judge/check_codecs.h"
#include "daemon/planner/simulate/policies/gist.h"
#include "daemon/planner/simulate/policies/zero_offload.h"
#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/run/runner.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using Catch::Contains;
using Catch::Equals;
using wire::Action;
using wire::ScheduleEntry;

wire::TraceTensor values(std::uint64_t bytes, wire::TensorKind kind = wire::TensorKind::activation) {
  wire::TraceTensor t = tensor(bytes);
  t.kind = kind;
  t.dtype = "float32";
  return t;
}

wire::TraceOp reading_signs(wire::TraceOp op, std::vector<std::uint32_t> tensors) {
  op.sign_only = std::move(tensors);
  return op;
}

enum : std::uint32_t { x, relu, pooled, convolved, pooled_gradient, relu_gradient, x_gradient };

// ReLU, pooling and convolution forward and back, 10 µs each. ReLU's output has 3,200 bytes, 100 as bits, and
// is read twice on the way back. By operation 6,400, 4,000, 4,800, 5,600, 7,200 and 9,600 bytes live; from
// the third on 3,100 less with bits.
wire::Trace pair() {
  const auto gradient = wire::TensorKind::gradient;
  return step({values(3200), values(3200), values(800), values(800), values(800, gradient),
               values(3200, gradient), values(3200, gradient)},
              {op(10, {x}, {relu}), op(10, {relu}, {pooled}), op(10, {pooled}, {convolved}),
               op(10, {pooled, convolved}, {pooled_gradient}),
               reading_signs(op(10, {relu, pooled_gradient}, {relu_gradient}), {relu}),
               reading_signs(op(10, {relu, relu_gradient}, {x_gradient}), {relu})});
}

CodecCost one_bit(double bytes_per_second) {
  CodecCost codec;
  codec.name = "bits";
  codec.compress_bytes_per_second = bytes_per_second;
  codec.one_bit = true;
  return codec;
}

// ReLU's output takes 10 µs to encode, and its bits 1 µs on their way.
Machine with_bits(std::uint64_t capacity_bytes) {
  Machine m;
  m.name = "bits";
  m.tiers = {{"gpu", capacity_bytes}};
  m.codecs = {one_bit(320e6)};
  return with_tier_inside(m, 100e6);
}

// The same with a host behind tier 0, which is tier 1; bits go to tier 2.
Machine with_host(std::uint64_t capacity_bytes) {
  Machine m = two_tiers(capacity_bytes);
  m.codecs = {one_bit(320e6)};
  return with_tier_inside(m, 100e6);
}

wire::Schedule by_hand(std::vector<ScheduleEntry> entries) { return {"step", "by hand", std::move(entries)}; }

std::string refusal(const wire::Trace& trace, const Machine& machine, std::vector<ScheduleEntry> entries) {
  return simulate(trace, machine, by_hand(std::move(entries))).error;
}

const ScheduleEntry bits_of_relu{2, relu, Action::out, 1, 1};

SimulationReport timeline_of(const wire::Trace& trace, const Machine& machine,
                             std::vector<ScheduleEntry> entries) {
  SimulationOptions options;
  options.record_timeline = true;
  const auto r = simulate(trace, machine, by_hand(std::move(entries)), options);
  INFO(r.error);
  REQUIRE(r);
  return *r;
}

bool rests_as_bits(const wire::Schedule& schedule, const Machine& machine) {
  return std::any_of(schedule.entries.begin(), schedule.entries.end(), [&](const ScheduleEntry& e) {
    return e.action == Action::out && e.codec != 0 && machine.codecs[e.codec - 1].one_bit;
  });
}

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

double planned_us(const wire::Trace& trace, const Machine& machine, const Result<SwapPlan>& plan) {
  return plan ? repeated_us(trace, machine, *plan) : never_us;
}

}  // namespace

TEST_CASE("One bit a value takes an eighth of a byte each, of types that are known") {
  const auto bytes = [](std::uint64_t of, const char* dtype) {
    wire::TraceTensor t = tensor(of);
    t.dtype = dtype;
    return one_bit_bytes(t);
  };
  CHECK(bytes(3200, "float32") == 100);
  CHECK(bytes(3204, "float32") == 101);
  CHECK(bytes(3200, "float16") == 200);
  CHECK(bytes(3200, "bfloat16") == 200);
  CHECK(bytes(3200, "float64") == 50);
  CHECK(bytes(3, "float32") == 1);
  CHECK(bytes(0, "float32") == 0);
  CHECK(bytes(3200, "int32") == 0);
  CHECK(bytes(3200, "") == 0);
  wire::TraceTensor t = tensor(3200);
  CHECK(stored_bytes(t, one_bit(1e6)) == 3200);
  t.dtype = "float32";
  CHECK(stored_bytes(t, one_bit(1e6)) == 100);
}

TEST_CASE("What an operation says of its inputs' signs is checked") {
  const auto wrong = [](std::vector<std::uint32_t> signs) {
    wire::Trace t = step({values(8), values(8), values(8)}, {op(1, {0, 1}, {1, 2})});
    t.ops[0].sign_only = std::move(signs);
    return check_trace(t);
  };
  CHECK(wrong({0}).empty());
  CHECK(wrong({7}) == "ops[0].sign_only[0]: tensor 7 does not exist");
  CHECK(wrong({0, 2}) == "ops[0].sign_only[1]: tensor 2 is no input of the operation; name inputs alone");
  CHECK(wrong({1}) == "ops[0].sign_only[0]: tensor 1 is an output, too; leave it out here");
  CHECK(wrong({0, 0}) == "ops[0].sign_only[0]: tensor 0 stands twice; name it once");
}

TEST_CASE("Values are needed until the last operation that reads more than signs, or writes") {
  CHECK(values_needed_until(pair()) == std::vector<std::uint32_t>{1, 2, 4, 4, 5, 6, 6});
  wire::Trace t = pair();
  t.tensors[relu].persistent = true;
  CHECK(values_needed_until(t)[relu] == 6);
}

TEST_CASE("Bits take a thirty-second of the memory and are read where they lie") {
  const wire::Trace t = pair();
  const Machine m = with_bits(6500);
  CHECK_THAT(refusal(t, m, {}), Contains("nothing on its way frees room"));
  const auto plan = swap_policy("gist")->plan(t, m);
  INFO(plan.error);
  REQUIRE(plan);
  REQUIRE(plan->entries.size() == 1);
  CHECK((plan->entries[0].at == 2 && plan->entries[0].object == relu && plan->entries[0].codec == 1));
  const SimulationReport r = simulated(t, m, plan->entries);
  CHECK(r.total_us == Approx(70));
  CHECK(r.codec_us == Approx(10));
  CHECK(r.stalls.total_us() == Approx(0));
  CHECK(r.tier_peak_bytes == std::vector<std::uint64_t>{6500, 100});
  REQUIRE(r.transfers.size() == 1);
  CHECK((r.transfers[0].stored_bytes == 100 && r.transfers[0].end_us == Approx(31)));
  CHECK(std::count_if(r.stays.begin(), r.stays.end(),
                      [](const Stay& s) { return s.coded && s.bytes == 100 && s.until_us > 69.9; }) == 1);
  CHECK_THAT(refusal(t, with_bits(6499), plan->entries), Contains("nothing on its way frees room"));
  CHECK(repeated_us(t, m, *plan) == Approx(70));
}

TEST_CASE("Bounds know that an operation that reads bits needs no more") {
  const wire::Trace t = pair();
  Machine m = with_bits(6500);
  CHECK(lower_bounds(t, m).largest_op_bytes == 6500);
  CHECK(step_bound(t, m, {.recomputes = true}).step_us == Approx(60));
  CHECK(step_bound(t, m).step_us == Approx(60));
  CHECK(step_bound(t, with_bits(6499)).step_us == never_us);
  m.codecs[0].one_bit = false;
  m.codecs[0].stored_share = 1 / 32.;
  m.codecs[0].decompress_bytes_per_second = 320e6;
  CHECK(lower_bounds(t, m).largest_op_bytes == 9600);
  wire::Trace plain = t;
  plain.ops[5].sign_only.clear();
  CHECK(lower_bounds(plain, with_bits(6500)).largest_op_bytes == 9600);
}

TEST_CASE("Bounds stay below what bits spare, at rest and while they are read") {
  // Over a link of 1 byte/µs nothing could leave and return in time.
  wire::Trace rests = pair();
  rests.ops[3].workspace_bytes = 3900;  // 6,300 bytes beside the bits
  const Machine m = with_host(6500);
  const ScheduleEntry bits{2, relu, Action::out, 2, 1};
  CHECK(simulated(rests, m, {bits}).total_us == Approx(70));
  wire::Trace read = pair();
  read.tensors.push_back(values(3000));  // rests over the last operation that reads bits
  read.tensors.back().id = 7;
  read.ops.insert(read.ops.begin(), op(10, {}, {7}));
  read.ops.push_back(op(10, {7}, {}));
  const Machine wider = with_host(9500);
  CHECK(simulated(read, wider, {{3, relu, Action::out, 2, 1}}).total_us == Approx(90));
  for (const bool recomputes : {false, true}) {
    CHECK(step_bound(rests, m, {.recomputes = recomputes}).step_us <= 70);
    CHECK(step_bound(read, wider, {.recomputes = recomputes}).step_us <= 90);
  }
}

TEST_CASE("Who needs values that are gone is named, with the entry and the tensor") {
  const Machine m = with_bits(20000);
  wire::Trace t = pair();
  t.ops[4].name = "pooling back";
  CHECK(refusal(t, m, {bits_of_relu}).empty());
  CHECK_THAT(refusal(t, m, {{1, relu, Action::out, 1, 1}}),
             Contains("entries[0]") && Contains("tensor 1") && Contains("operation 1"));
  t.ops[4].sign_only.clear();
  CHECK(refusal(t, m, {bits_of_relu}) ==
        "entries[0]: it leaves one bit of each value of tensor 1, and operation 4 ('pooling back') needs the "
        "values later; use another codec, or drop the tensor and make it again before");
  t = pair();
  t.ops[4].sign_only.clear();
  t.ops[4].outputs.push_back(relu);  // updates it in place
  CHECK_THAT(refusal(t, m, {bits_of_relu}), Contains("operation 4"));
  t = pair();
  t.ops[4] = op(10, {pooled_gradient}, {relu, relu_gradient});  // writes it whole
  t.ops[5].sign_only.clear();
  CHECK(refusal(t, m, {bits_of_relu}).empty());
  t = pair();
  t.tensors[relu].persistent = true;
  CHECK_THAT(refusal(t, m, {bits_of_relu}), Contains("entries[0]") && Contains("tensor 1 is persistent"));
  t = pair();
  t.tensors[relu].dtype = "int64";
  CHECK_THAT(refusal(t, m, {bits_of_relu}), Contains("dtype is 'int64'"));
}

TEST_CASE("Bits stay where they are") {
  const wire::Trace t = pair();
  const Machine m = with_host(20000);
  const ScheduleEntry inside{2, relu, Action::out, 2, 1};
  CHECK(refusal(t, m, {inside}).empty());
  CHECK_THAT(refusal(t, m, {bits_of_relu}), Contains("inside tier 0 alone"));
  CHECK_THAT(refusal(t, m, {inside, {3, relu, Action::in, 2}}),
             Contains("entries[1]") && Contains("no value comes back"));
  // What is away already does not leave again.
  const SimulationReport r = simulated(t, m, {inside, {4, relu, Action::out, 1}});
  CHECK(r.transfers.size() == 1);
  CHECK(r.tier_peak_bytes[1] == 0);
}

TEST_CASE("A recomputation reads no values of bits, and values come back by recomputing them") {
  const wire::Trace t = pair();
  const Machine m = with_bits(20000);
  wire::Trace with_x = t;
  with_x.ops[5].inputs.push_back(x);  // is there to the end
  CHECK_THAT(refusal(with_x, m,
                     {{2, relu, Action::out, 1, 1}, {3, pooled, Action::drop}, {3, pooled, Action::redo}}),
             Contains("recomputing operation 1") && Contains("tensor 1"));
  const SimulationReport r = simulated(with_x, m,
                                       {{2, relu, Action::out, 1, 1},
                                        {3, pooled, Action::drop},
                                        {3, relu, Action::drop},
                                        {3, relu, Action::redo},
                                        {3, pooled, Action::redo},
                                        {3, relu, Action::out, 1, 1}});
  CHECK(r.codec_us == Approx(20));
  CHECK(r.recompute_us == Approx(20));
  // What reads signs alone may run again beside them.
  wire::Trace twice = t;
  twice.ops.push_back(op(10, {relu_gradient}, {}));
  CHECK(simulate(
      twice, m, by_hand({bits_of_relu, {5, relu_gradient, Action::drop}, {5, relu_gradient, Action::redo}})));
}

TEST_CASE("While bits are on their way values are still there, and whole writes end them") {
  wire::Trace t = pair();
  Machine m = with_bits(20000);
  m.links[0].out_bytes_per_second = 1e6;  // 100 µs
  simulated(t, m, {bits_of_relu});
  t.ops.push_back(op(10, {}, {relu}));
  t.ops.push_back(op(10, {relu}, {}));
  simulated(t, m, {bits_of_relu});
  m.links[0].out_bytes_per_second = 100e6;
  const SimulationReport r = simulated(t, m, {bits_of_relu});
  CHECK(r.tier_peak_bytes[1] == 100);
}

TEST_CASE("A run of what a check did not see is refused all the same") {
  const wire::Trace t = [] {
    wire::Trace made = pair();
    made.ops[4].sign_only.clear();
    return made;
  }();
  Machine lossless = with_bits(20000);
  lossless.codecs[0].one_bit = false;
  lossless.codecs[0].stored_share = 1 / 32.;
  lossless.codecs[0].decompress_bytes_per_second = 1e6;
  const auto run = [&](const wire::Schedule& schedule) {
    const auto program = make_program(t, lossless, schedule);
    REQUIRE(program);
    const SimulationOptions options;
    const Machine bits = with_bits(20000);
    return Runner(t, bits, schedule, options, *program).run().error;
  };
  CHECK_THAT(run(by_hand({bits_of_relu})), Contains("needs the values of tensor 1"));
  CHECK_THAT(run(by_hand({bits_of_relu, {4, relu, Action::in, 1}})), Contains("cannot come back"));
}

TEST_CASE("The judge sees who reads values of bits, brings them back, or loses them") {
  const wire::Trace t = pair();
  const Machine m = with_bits(20000);
  const SimulationReport right = timeline_of(t, m, {bits_of_relu});
  CHECK_THAT(check_timeline(t, m, right), Equals(""));
  wire::Trace needs_values = t;
  needs_values.ops[4].sign_only.clear();
  CHECK_THAT(check_timeline(needs_values, m, right), Contains("tensor 1 is not in tier 0 when it is needed"));
  wire::Trace untyped = t;
  untyped.tensors[relu].dtype.clear();
  CHECK_THAT(check_timeline(untyped, m, right), Contains("which its codec does not make of it"));
  wire::Trace half = t;
  half.tensors[relu].dtype = "float16";
  CHECK_THAT(check_timeline(half, m, right), Contains("which its codec does not make of it"));
  Machine lossless = m;
  lossless.codecs[0].one_bit = false;
  lossless.codecs[0].stored_share = 1 / 32.;
  lossless.codecs[0].decompress_bytes_per_second = 320e6;
  CHECK_THAT(check_timeline(t, lossless, right), Contains("its form has no signs"));
  wire::Trace lasting = t;
  lasting.tensors[relu].persistent = true;
  SimulationReport lasted = right;
  lasted.start.push_back({relu, 0, 3200, 0, 0});
  CHECK_THAT(check_timeline(lasting, m, lasted), !Equals(""));
  const SimulationReport back = timeline_of(t, lossless, {bits_of_relu, {4, relu, Action::in, 1}});
  CHECK_THAT(check_timeline(t, lossless, back), Equals(""));
  CHECK_THAT(check_timeline(t, m, back), Contains("comes back, of which one bit of each value is left"));
}

TEST_CASE("The judge knows that bits of a persistent tensor are no tensor, and lie inside tier 0 alone") {
  wire::Trace t =
      step({tensor(3200, true), values(100)}, {op(10, {0}, {}), op(10, {}, {1}), op(10, {1}, {})});
  t.tensors[0].dtype = "float32";
  Machine lossless = with_bits(20000);
  lossless.codecs[0].one_bit = false;
  lossless.codecs[0].stored_share = 1 / 32.;
  lossless.codecs[0].decompress_bytes_per_second = 320e6;
  const SimulationReport r = timeline_of(t, lossless, {{1, 0, Action::out, 1, 1}});
  CHECK_THAT(check_timeline(t, lossless, r), Equals(""));
  CHECK_THAT(check_timeline(t, with_bits(20000), r),
             Contains("of persistent tensor 0 one bit a value is left"));
  SimulationReport begun = r;
  begun.start[0] = {0, 1, 100, 0, 0};
  CHECK_THAT(check_timeline(t, with_bits(20000), begun), Contains("which no codec makes of it"));

  Machine host = with_host(20000);
  host.codecs[0] = lossless.codecs[0];
  const SimulationReport sent = timeline_of(pair(), host, {bits_of_relu});
  CHECK_THAT(check_timeline(pair(), with_host(20000), sent), Contains("which its codec does not make of it"));
}

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

TEST_CASE("A machine's codec for bits has no way back and does not overlap") {
  Machine m = with_bits(20000);
  m.codecs[0].decompress_bytes_per_second = 1e6;
  CHECK_THAT(refusal(pair(), m, {}), Contains("codecs[0] ('bits')") && Contains("no value comes back"));
  m = with_bits(20000);
  m.codecs[0].overlaps = true;
  CHECK_THAT(refusal(pair(), m, {}), Contains("codecs[0] ('bits')") && Contains("cannot overlap"));
  m = with_bits(20000);
  m.codecs[0].one_bit = false;
  CHECK_THAT(refusal(pair(), m, {}), Contains("in both directions"));
}

TEST_CASE("The judge lets no other form come from bits") {
  const wire::Trace t = pair();
  Machine m = with_bits(20000);
  m.codecs.push_back({"half", 320e6, 320e6, 0.5, false, 0});
  CodecJudge judge(t, m);
  const auto taking = [](double us) {
    OpTiming timing;
    timing.end_us = us;
    return timing;
  };
  m.codecs[1].compress_bytes_per_second = 160e6;
  REQUIRE(judge.compressed(relu, taking(10), false));
  CHECK(judge.has_form(relu));
  CHECK_FALSE(judge.compressed(relu, taking(33), true));
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
  std::uint32_t compared = 0, packed = 0, ours_alone = 0, faster = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    wire::Trace t = signed_step(random);
    for (wire::TraceOp& o : t.ops) o.recomputable = random() % 4 == 0;
    Machine m = with_tier_inside(roomy_machine(random, t), 1e9);
    m.codecs.push_back(one_bit(1e9));
    if (!nothing_to_encode(t, m).empty()) continue;
    const auto ours = swap_policy("joint")->plan(t, m, brief);
    const double gist_us = planned_us(t, m, swap_policy("gist")->plan(t, m, brief));
    const double ours_us = planned_us(t, m, ours);
    INFO("seed " << seed);
    REQUIRE(ours_us <= gist_us);
    compared += gist_us < never_us ? 1 : 0;
    ours_alone += gist_us == never_us && ours_us < never_us && rests_as_bits(*ours, m) ? 1 : 0;
    faster += ours_us < gist_us && gist_us < never_us ? 1 : 0;
    packed += ours && rests_as_bits(*ours, m) ? 1 : 0;
    if (ours_us < never_us)
      REQUIRE(step_bound(in_order(t, ours->operations), m, {.recomputes = true, .repeats = true}).step_us <=
              ours_us * (1 + 1e-9));
  }
  CHECK(compared > 10);
  CHECK(packed > 10);
  CHECK(ours_alone > 5);
  CHECK(faster > 5);
}

}  // namespace terrace::planner
