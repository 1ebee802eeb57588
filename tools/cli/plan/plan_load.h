// What `terrace plan` and `terrace import` read: a trace in any format that is known, packed or not, and a
// machine by file or by name. Everything here comes from outside and is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/planner/machine.h"
#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/simulator.h"
#include "tools/cli/base/text_files.h"

namespace terrace::cli {

struct PlanInput {
  std::unique_ptr<wire::Trace> trace;  // null where there are lifetimes only; instance.trace points to it
  planner::Instance instance;
  std::string format;              // "terrace-trace", "minimalloc", …
  std::vector<std::string> notes;  // what the importer could not take over
};

// `format` as an importer names it; empty: recognised from the content.
Loaded<PlanInput> load_plan_input(const std::string& path, const std::string& format = "");

// "recorded", "breadth_first", "reverse_depth_first", "memory_minimising".
std::vector<std::string> order_names();
// Puts the operations of a step into another order; what that is called stands in the instance's name. Empty,
// or why this input has no other order.
std::string put_in_order(PlanInput* input, const std::string& order);

// A schedule of this step. A file does not say by which rule its plan leaves things open: Belady's is what
// the joint search counts on.
Loaded<planner::SwapPlan> load_plan(const std::string& path, const PlanInput& input,
                                    const planner::Machine& machine);

// A name that is built in, or a file.
Loaded<planner::Machine> load_machine(const std::string& name_or_path);

}  // namespace terrace::cli
