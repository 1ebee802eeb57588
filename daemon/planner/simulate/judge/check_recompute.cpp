// Whether running an operation again gave what it gave the first time: it had run, is marked as one that may
// run twice, and nothing that it reads was written since, neither by itself (in place) nor by another one.
// What is kept of it must be what it wrote, and nobody else since.
#include <algorithm>

#include "daemon/planner/simulate/judge/check_parts.h"

namespace terrace::planner {
namespace {

class RecomputeChecker {
 public:
  RecomputeChecker(const wire::Trace& trace, const SimulationReport& report)
      : trace_(trace), report_(report), writer_(trace.tensors.size(), nobody) {}

  std::string check() {
    std::size_t next = 0;
    for (std::uint32_t op = 0; op <= trace_.ops.size(); ++op) {
      for (; next < report_.extra.size() && report_.extra[next].position == op; ++next) {
        const ExtraWork& work = report_.extra[next];
        if (work.kind != ExtraWork::Kind::recompute) continue;
        if (const std::string why = wrong(work); !why.empty())
          return "recomputing operation " + std::to_string(work.op) + " before operation " +
                 std::to_string(op) + ": " + why;
      }
      if (op == trace_.ops.size()) break;
      for (const std::uint32_t t : trace_.ops[op].outputs) writer_[t] = op;
    }
    return {};
  }

 private:
  static constexpr std::uint32_t nobody = 0xffffffffU;

  const wire::Trace& trace_;
  const SimulationReport& report_;
  std::vector<std::uint32_t> writer_;  // per tensor: the operation that wrote it last

  std::string name_of(std::uint32_t t) const { return "tensor " + std::to_string(trace_.tensors[t].id); }

  std::string wrong(const ExtraWork& work) const {
    if (work.op >= work.position) return "it has not run yet";
    const wire::TraceOp& op = trace_.ops[work.op];
    if (!op.recomputable) return "it is marked as not recomputable";
    for (const std::uint32_t t : op.inputs) {
      if (std::find(op.outputs.begin(), op.outputs.end(), t) != op.outputs.end())
        return "it updates " + name_of(t) + " in place";
      if (writer_[t] != nobody && writer_[t] > work.op) return name_of(t) + " was written since it read it";
    }
    for (const std::uint32_t t : work.tensors) {
      if (t >= trace_.tensors.size() || writer_[t] != work.op)
        return "what it is said to make was not written by it last";
    }
    return {};
  }
};

}  // namespace

std::string check_recomputations(const wire::Trace& trace, const SimulationReport& report) {
  return RecomputeChecker(trace, report).check();
}

}  // namespace terrace::planner
