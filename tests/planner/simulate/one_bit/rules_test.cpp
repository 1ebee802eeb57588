// What may rest as one bit a value, the account of it by hand, and who refuses the rest.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/one_bit.h"
#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/run/runner.h"
#include "tests/planner/simulate/one_bit/bits.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using namespace test::bits;
using Catch::Contains;
using wire::Action;
using wire::ScheduleEntry;

std::string refusal(const wire::Trace& trace, const Machine& machine, std::vector<ScheduleEntry> entries) {
  return simulate(trace, machine, by_hand(std::move(entries))).error;
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

}  // namespace terrace::planner
