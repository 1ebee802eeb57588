// ZeRO-Offload: gradients, optimizer states and the update live with the CPU.
//
// Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training" (USENIX ATC 2021), section 4.1, for
// one GPU. Forward and backward passes stay on the GPU, with the weights. A gradient leaves as soon as it is
// complete; the CPU updates its copy of the weight; the new weight comes back. With the delayed update
// (section 5.2) the CPU works while the GPU does the next step, which still uses the weights before.
//
//     GPU     | forward | backward    |           | forward …         in turn
//     links             g g g g g g    w w w w w                      (out and in)
//     CPU                             u u u u u
//
//     GPU     | forward | backward    |     | forward | backward    | delayed: u hides behind the next step
//     links             g g g g g g              w of the step before ↑
//
// What this makes of a step: the operations that name optimizer states are taken out, and what depends on
// them alone. The states and a copy of the weights fill the CPU's memory. Each gradient is a tensor that goes
// to the tier "cpu" and comes back as the new weight, which an operation without time takes over. The CPU is
// a link of its own in front of its tier: on the way in when it works in turn, since copying back overlaps
// updating tile by tile there; on the way out with the delayed update, so that it has the next step for its
// work. simulate() and its judge then see nothing new. Two steps stand for one period with the delayed
// update, since two sets of gradients are under way.
//
// Reconstructed from the abstract and public notes on the paper; its text was not at hand. What returns has
// the gradient's bytes, which are the weight's where both have one type; with 16-bit weights ZeRO-Offload's
// are too. With the delayed update and a CPU slower than the link a gradient keeps its memory until the CPU
// has taken it, where ZeRO-Offload copies it to the CPU's memory at the link's speed: the memory told is then
// too much. Left out: several GPUs, and the first steps, which the delayed update leaves as they are.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

// A step that is another one than the trace it comes from, and its plan.
struct OffloadedStep {
  wire::Trace trace;            // what the GPU does
  Machine machine;              // the last tier and the last link are the CPU's
  SwapPlan plan;                // of that trace on that machine
  std::uint32_t steps = 1;      // training steps in the trace
  std::uint32_t tier = 0;       // of the machine that was given: whose memory the CPU works in
  std::uint64_t cpu_bytes = 0;  // states and copies of weights
};

// The CPU is that of the nearest tier that has one (Tier::update_bytes_per_second). Refused where no
// operation names an optimizer state, where no tier with a route has a CPU, and where the states do not fit
// there.
Result<OffloadedStep> offload_update(const wire::Trace& trace, const Machine& machine, bool delayed);

// Simulated, with its timeline; the trace and the machine are the step's. Every second period is reported, so
// that what persists has found its place.
Result<SimulationReport> simulate(const OffloadedStep& step);

// What the report says of one training step on the machine that was given: without the CPU's link, its tier
// counted with the tier whose memory it works in, states and copies included. Without timeline and bounds.
SimulationReport for_one_step(const OffloadedStep& step, const SimulationReport& report);

// A policy that takes the update out of the step. Its plans are of another step, so it is none of
// swap_policies().
struct UpdatePolicy {
  const char* name;
  const char* family;
  const char* source;
  bool delayed;
};
std::vector<UpdatePolicy> update_policies();

}  // namespace terrace::planner
