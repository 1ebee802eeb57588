// What the tests of one bit a value share: a step of ReLU, pooling and convolution, and machines for it.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner::test::bits {

// Floating-point numbers of four bytes each.
wire::TraceTensor values(std::uint64_t bytes, wire::TensorKind kind = wire::TensorKind::activation);
wire::TraceOp reading_signs(wire::TraceOp op, std::vector<std::uint32_t> tensors);

// Tensors of the step.
enum : std::uint32_t { x, relu, pooled, convolved, pooled_gradient, relu_gradient, x_gradient };

// ReLU, pooling and convolution forward and back, 10 µs each. ReLU's output has 3,200 bytes, 100 as bits, and
// is read twice on the way back. By operation 6,400, 4,000, 4,800, 5,600, 7,200 and 9,600 bytes live; from
// the third on 3,100 less with bits.
wire::Trace pair();

CodecCost one_bit(double bytes_per_second);
// ReLU's output takes 10 µs to encode, and its bits 1 µs on their way.
Machine with_bits(std::uint64_t capacity_bytes);
// The same with a host behind tier 0, which is tier 1; bits go to tier 2.
Machine with_host(std::uint64_t capacity_bytes);

inline const wire::ScheduleEntry bits_of_relu{2, relu, wire::Action::out, 1, 1};
wire::Schedule by_hand(std::vector<wire::ScheduleEntry> entries);
// Fails the test if the schedule is refused; nothing checks the timeline.
SimulationReport timeline_of(const wire::Trace& trace, const Machine& machine,
                             std::vector<wire::ScheduleEntry> entries);

// Whether it encodes anything as one bit a value.
bool rests_as_bits(const wire::Schedule& schedule, const Machine& machine);

}  // namespace terrace::planner::test::bits
