// A machine (`terrace-machine` version 1) and a schedule (`terrace-schedule` version 2) as JSON:
// docs/formats/trace.md, docs/formats/schedule.md.
#pragma once

#include <string>
#include <string_view>

#include "daemon/planner/machine.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

Result<Machine> parse_machine(std::string_view text);
std::string machine_json(const Machine& machine);

// Tensors, tiers and operations are named by their numbers in the trace and the machine, and checked against
// them.
Result<wire::Schedule> parse_schedule(std::string_view text, const wire::Trace& trace,
                                      const Machine& machine);
std::string schedule_json(const wire::Schedule& schedule, const wire::Trace& trace, const Machine& machine);

}  // namespace terrace::planner
