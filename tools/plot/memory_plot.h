// Bytes over time.
//
// Of a simulated step: one panel for each tier that holds anything, its limit as a line, and the stalls
// shaded by cause. Without a machine: what is alive at each operation, stacked by kind, under the memory that
// a placement needs.
#pragma once

#include <string>
#include <vector>

#include "daemon/planner/machine.h"
#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/simulator.h"
#include "liballoc/wire/result.h"
#include "tools/plot/axis.h"

namespace terrace::plot {

struct StepPicture {
  const wire::Trace* trace = nullptr;
  const planner::Machine* machine = nullptr;
  const planner::SimulationReport* report = nullptr;  // with its timeline
  std::string policy;
};

struct LivePicture {
  const planner::Instance* instance = nullptr;
  std::uint64_t reserved_bytes = 0;  // by the placement of `policy`
  std::string policy;
};

// What a step's picture says in words, times in the unit of its axis; and its legend, with the stalls that
// occur.
std::string step_summary(const planner::SimulationReport& report);
std::vector<LegendEntry> step_legend(const planner::SimulationReport& report);

// PREFIX.svg and PREFIX.png.
Result<std::vector<std::string>> plot_step(const std::string& prefix, const StepPicture& picture);
Result<std::vector<std::string>> plot_live(const std::string& prefix, const LivePicture& picture);

}  // namespace terrace::plot
