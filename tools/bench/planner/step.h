// A made-up training step of any size, for the simulator's speed and for damage to its reports.
#pragma once

#include <vector>

#include "daemon/planner/machine.h"
#include "liballoc/wire/trace.h"
#include "tools/bench/planner/parts.h"

namespace terrace::bench {

inline constexpr double a100_memory = 1555e9;  // bytes per second, by its data sheet

// `layers` operations forward and as many backward; each layer has a weight, an activation, and the gradients
// of both: 4 tensors. Sizes spread over two orders of magnitude, the same for the same seed.
wire::Trace training_step(std::uint32_t layers, std::uint64_t seed);

// The same with 32-bit Adam: of each weight a state of twice its bytes, and an update in place at the end,
// whose time is that of 28 bytes of memory traffic for each 4 of the weight at the 1,555 GB/s of an A100's
// memory.
wire::Trace training_step_with_adam(std::uint32_t layers, std::uint64_t seed);

// The same with algorithms and sub-batches, made up: forward and backward operations have a workspace of half
// of their activation, and three variants: 25% faster with a workspace as large as the activation, 15% slower
// with a half and 40% slower with a quarter of their own workspace.
wire::Trace training_step_with_variants(std::uint32_t layers, std::uint64_t seed);

// Convolutions with a ReLU each, of which every other one is followed by max-pooling 2 by 2, as in VGG: 5
// operations of each layer in the mean, in both passes together. ReLU's outputs are half zeros. The backward
// passes of ReLU and of pooling say that they need no values of them (TraceOp::sign_only); a convolution's
// needs those of its input. ReLU and pooling take the time of their memory traffic on an A100.
wire::Trace training_step_with_relus(std::uint32_t layers, std::uint64_t seed);

// A GPU with `share` of what the step needs, DRAM and an SSD behind one PCIe link.
planner::Machine machine_for(const wire::Trace& trace, double share);

// One row for each kind of damage to a simulated step.
std::vector<Json> damaged_steps();

}  // namespace terrace::bench
