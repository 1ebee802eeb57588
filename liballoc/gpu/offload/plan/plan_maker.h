// From a step to its plan: the step as a trace, the device with what lies behind it as a machine, the policy
// that was asked for, and the simulator's word on it.
//
// The trace's operations are the step's intervals, its tensors the saved ones, by number; so an ordinal of
// the schedule is an event, and an object a number. A tensor is an output of the interval that it is saved
// at the end of, an input of the first and the last interval that use it. Memory that is no saved tensor is
// no part of it: it was taken off the room. What the schedule leaves open goes by the furthest use (Belady,
// IBM Systems Journal 1966), in the simulation as in the run.
//
// Pure: no clock, no lock, no thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/planner/machine.h"
#include "liballoc/gpu/offload/plan/step_shape.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::liballoc::offload {

struct Speed {
  double bytes_per_second = 0;
  double latency_us = 0;
};

struct PlanRequest {
  StepShape shape;
  std::vector<double> busy_us;   // by interval; as many as the shape has
  std::uint64_t room_bytes = 0;  // of the device's memory, for saved tensors
  std::uint64_t dram_bytes = 0;
  std::uint64_t nvme_bytes = 0;  // 0: no drive
  Speed out, in;                 // between the device and host memory
  Speed drive_out, drive_in;     // between host memory and the drive
  std::string policy;            // a name of plan_policies()
};

struct Plan {
  StepShape shape;
  std::uint64_t room_bytes = 0;
  wire::Schedule schedule;  // with the prediction
};

wire::Trace trace_of(const PlanRequest& request);
planner::Machine machine_of(const PlanRequest& request);

// "heuristic", "best", and the names of published policies, as they are written in messages.
const std::vector<std::string_view>& plan_policies();

// The plan, or in plain words why there is none. "best" is the one of the published plans that the simulator
// finds fastest. O(n log n) or so in tensors for "g10"; the others may take longer.
Result<Plan> make_plan(PlanRequest request);

}  // namespace terrace::liballoc::offload
