#include "tests/planner/simulate/one_bit/bits.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner::test::bits {

using wire::Action;
using wire::ScheduleEntry;

wire::TraceTensor values(std::uint64_t bytes, wire::TensorKind kind) {
  wire::TraceTensor t = tensor(bytes);
  t.kind = kind;
  t.dtype = "float32";
  return t;
}

wire::TraceOp reading_signs(wire::TraceOp op, std::vector<std::uint32_t> tensors) {
  op.sign_only = std::move(tensors);
  return op;
}

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

Machine with_bits(std::uint64_t capacity_bytes) {
  Machine m;
  m.name = "bits";
  m.tiers = {{"gpu", capacity_bytes}};
  m.codecs = {one_bit(320e6)};
  return with_tier_inside(m, 100e6);
}

Machine with_host(std::uint64_t capacity_bytes) {
  Machine m = two_tiers(capacity_bytes);
  m.codecs = {one_bit(320e6)};
  return with_tier_inside(m, 100e6);
}

wire::Schedule by_hand(std::vector<ScheduleEntry> entries) { return {"step", "by hand", std::move(entries)}; }

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
    return e.action == Action::out && machine.keeps_one_bit(e.codec);
  });
}

}  // namespace terrace::planner::test::bits
