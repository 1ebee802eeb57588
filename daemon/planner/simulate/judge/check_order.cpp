// The order that a report tells of.
//
// Each tensor's contents are numbered: 0 before the step, one more with each operation that writes it. In the
// trace's order an operation meets a content of each tensor that it names, and leaves the next one if it
// writes:
//
//     operation   a writes   b reads   c reads   d writes
//     meets           0         1         1          1
//
// An order in which every operation meets the same contents keeps reads behind the writes that they read
// from, writes behind the reads of what they overwrite, and writes behind writes; one that breaks any of
// these has an operation that meets another content.
#include <algorithm>

#include "daemon/planner/simulate/judge/check_parts.h"

namespace terrace::planner {
namespace {

struct Met {
  std::uint32_t tensor = 0;
  std::uint32_t content = 0;
  bool writes = false;
};

// What is wrong with the numbers alone.
std::string check_numbers(std::size_t ops, const std::vector<std::uint32_t>& order) {
  if (order.size() != ops)
    return "the report tells of an order of " + std::to_string(order.size()) + " operations, the trace has " +
           std::to_string(ops);
  std::vector<std::uint32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t op = 0; op < ops; ++op) {
    if (sorted[op] > op) return "operation " + std::to_string(op) + " is missing from the order that is told";
    if (sorted[op] < op) return "operation " + std::to_string(sorted[op]) + " is told to have run twice";
  }
  return {};
}

// The contents that operations meet, one operation after the other.
class Contents {
 public:
  explicit Contents(const wire::Trace& trace) : trace_(trace), now_(trace.tensors.size(), 0) {}

  std::vector<Met> meet(std::uint32_t op) {
    const wire::TraceOp& o = trace_.ops[op];
    std::vector<Met> met;
    met.reserve(o.inputs.size() + o.outputs.size());
    for (const std::uint32_t t : o.inputs) met.push_back({t, now_[t], false});
    for (const std::uint32_t t : o.outputs) met.push_back({t, now_[t], true});
    for (const Met& m : met)
      if (m.writes) now_[m.tensor] = m.content + 1;
    return met;
  }

 private:
  const wire::Trace& trace_;
  std::vector<std::uint32_t> now_;
};

std::string told(const Met& expected, const Met& found, std::uint32_t op, std::uint32_t position) {
  const std::string who = "operation " + std::to_string(op) + " is told to have run as number " +
                          std::to_string(position) + ", and ";
  const std::string tensor = "tensor " + std::to_string(expected.tensor);
  if (expected.writes)
    return who + "writes " + tensor + " there in another turn than among the trace's operations";
  return who + (found.content < expected.content ? "reads " + tensor + " there before it is written"
                                                 : "reads " + tensor + " there after it is overwritten");
}

}  // namespace

std::string check_order(const wire::Trace& trace, const std::vector<std::uint32_t>& order) {
  if (!trace.reads_known) return "another order is told of a step whose reads are not known";
  if (std::string wrong = check_numbers(trace.ops.size(), order); !wrong.empty()) return wrong;
  std::vector<std::vector<Met>> expected;
  expected.reserve(trace.ops.size());
  Contents recorded(trace);
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) expected.push_back(recorded.meet(op));
  Contents as_told(trace);
  for (std::uint32_t position = 0; position < order.size(); ++position) {
    const std::uint32_t op = order[position];
    const std::vector<Met> found = as_told.meet(op);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].content != expected[op][i].content) return told(expected[op][i], found[i], op, position);
    }
  }
  return {};
}

}  // namespace terrace::planner
