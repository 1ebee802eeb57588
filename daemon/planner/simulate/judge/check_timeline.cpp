// The judge of timelines. Five views, none of which trusts the simulator or shares code with it.
#include <utility>
#include <vector>

#include "daemon/planner/simulate/judge/check_parts.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {

namespace {

// The step with what each operation costs in the variant that the report tells of. What is wrong, or nothing.
std::string as_it_ran(const SimulationReport& report, wire::Trace* trace) {
  std::vector<bool> told(trace->ops.size(), false);
  for (const wire::VariantChoice& choice : report.variants) {
    if (choice.op >= trace->ops.size()) return "a variant is told of an operation that does not exist";
    if (told[choice.op]) return "an operation is told to have run in two variants";
    told[choice.op] = true;
    wire::TraceOp& op = trace->ops[choice.op];
    if (choice.variant < 1 || choice.variant > op.variants.size())
      return "operation " + std::to_string(choice.op) + " is told to have run in a variant that it has not";
    const wire::OpVariant& variant = op.variants[choice.variant - 1];
    op.time_us = variant.time_us;
    op.workspace_bytes = variant.workspace_bytes;
  }
  return {};
}

wire::Trace put_in_order(wire::Trace trace, const std::vector<std::uint32_t>& order) {
  std::vector<wire::TraceOp> ops;
  ops.reserve(order.size());
  for (const std::uint32_t op : order) ops.push_back(std::move(trace.ops[op]));
  trace.ops = std::move(ops);
  return trace;
}

}  // namespace

std::string check_timeline(const wire::Trace& given, const Machine& machine, const SimulationReport& report) {
  const bool as_given = report.variants.empty() && report.operations.empty();
  wire::Trace changed;
  std::string wrong = check_machine(machine);
  if (wrong.empty()) wrong = check_trace(given);
  if (wrong.empty() && !as_given) wrong = as_it_ran(report, &(changed = given));
  if (wrong.empty() && !report.operations.empty()) {
    wrong = check_order(given, report.operations);
    if (wrong.empty()) changed = put_in_order(std::move(changed), report.operations);
  }
  const wire::Trace& trace = as_given ? given : changed;
  if (wrong.empty()) wrong = check_transfers(trace, machine, report);
  if (wrong.empty()) wrong = check_work(trace, report);
  if (wrong.empty()) wrong = check_recomputations(trace, report);
  if (wrong.empty()) wrong = check_memory(trace, machine, report);
  return wrong;
}

}  // namespace terrace::planner
