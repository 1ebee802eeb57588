// A trace as G10's simulator and planner see it: whole cycles, whole pages, workspaces as tensors of their
// own at the end of the list, lives by the last read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/g10/g10.h"

namespace terrace::planner::g10 {

struct Tensor {
  std::uint64_t bytes = 0;  // whole pages
  std::uint32_t pages = 0;
  bool global = false;
  std::uint32_t birth = 0;  // first operation that names it
  std::uint32_t death = 0;  // first operation that does not need it any more; global: not used
  bool alive(std::uint32_t op) const { return global || (op >= birth && op < death); }
};

struct Kernel {
  std::uint64_t cycles = 0;
  // Inputs, then the workspace, then the outputs that are no inputs, last first; no duplicates. Pages fault
  // in this order. The artifact's is that of hash sets of addresses: mostly the reverse of insertion, for
  // inputs unknown.
  std::vector<std::uint32_t> needs;
  std::uint32_t inputs = 0;       // how many of `needs` are inputs
  std::uint32_t all_seconds = 0;  // G10FaultTimes, or the execution time in whole seconds
  std::uint32_t input_seconds = 0;
  std::uint32_t execution_seconds = 0;
};

struct Workload {
  std::vector<Tensor> tensors;
  std::vector<Kernel> kernels;
  std::uint64_t ideal_cycles = 0;
};

Result<Workload> make_workload(const wire::Trace& trace, const G10Machine& machine,
                               std::span<const G10FaultTimes> fault_times);

}  // namespace terrace::planner::g10
