// The judge follows bits by code of its own.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/simulate/judge/check_codecs.h"
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

}  // namespace

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

}  // namespace terrace::planner
