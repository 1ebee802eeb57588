// The judge of timelines. Four views, none of which trusts the simulator or shares code with it.
#include "daemon/planner/simulate/judge/check_parts.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {

std::string check_timeline(const wire::Trace& trace, const Machine& machine, const SimulationReport& report) {
  std::string wrong = check_machine(machine);
  if (wrong.empty()) wrong = check_trace(trace);
  if (wrong.empty()) wrong = check_transfers(trace, machine, report);
  if (wrong.empty()) wrong = check_work(trace, report);
  if (wrong.empty()) wrong = check_recomputations(trace, report);
  if (wrong.empty()) wrong = check_memory(trace, machine, report);
  return wrong;
}

}  // namespace terrace::planner
