// Whether every operation read the versions of its inputs that the trace gives it, the first time and again.
//
// A tensor's version is the operation that wrote it last. What each tensor holds is followed from the report
// alone: a drop empties it, a recomputation leaves the version that its operation once left, perhaps an older
// one than is due. An operation of the trace then reads the version that is due there, and a recomputation
// exactly those that its operation read; a newer one is as wrong as an older one.
#include <algorithm>

#include "daemon/planner/simulate/judge/check_parts.h"

namespace terrace::planner {
namespace {

class RecomputeChecker {
 public:
  RecomputeChecker(const wire::Trace& trace, const SimulationReport& report)
      : trace_(trace),
        report_(report),
        writers_(trace.tensors.size()),
        holds_(trace.tensors.size(), initial) {}

  std::string check() {
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op)
      for (const std::uint32_t t : trace_.ops[op].outputs) writers_[t].push_back(op);
    std::size_t next = 0;
    for (std::uint32_t op = 0; op <= trace_.ops.size(); ++op) {
      for (; next < report_.extra.size() && report_.extra[next].position == op; ++next) {
        if (const std::string why = follow(report_.extra[next]); !why.empty())
          return "recomputing operation " + std::to_string(report_.extra[next].op) + " before operation " +
                 std::to_string(op) + ": " + why;
      }
      if (op == trace_.ops.size()) break;
      for (const std::uint32_t t : trace_.ops[op].inputs)
        if (holds_[t] != dropped && holds_[t] != before(t, op))
          return "operation " + std::to_string(op) + " reads an older content of " + name_of(t) +
                 " than is due";
      for (const std::uint32_t t : trace_.ops[op].outputs) holds_[t] = op;
    }
    return kept();
  }

 private:
  // Beside operations, as versions.
  static constexpr std::uint32_t initial = 0xffffffffU, dropped = 0xfffffffeU;

  const wire::Trace& trace_;
  const SimulationReport& report_;
  std::vector<std::vector<std::uint32_t>> writers_;  // per tensor: operations in order
  std::vector<std::uint32_t> holds_;                 // per tensor: its version now

  std::string name_of(std::uint32_t t) const { return "tensor " + std::to_string(trace_.tensors[t].id); }

  // The version that an operation finds.
  std::uint32_t before(std::uint32_t t, std::uint32_t op) const {
    const auto writer = std::lower_bound(writers_[t].begin(), writers_[t].end(), op);
    return writer == writers_[t].begin() ? initial : *(writer - 1);
  }

  std::string follow(const ExtraWork& work) {
    if (work.kind == ExtraWork::Kind::drop && work.tensors.size() == 1 && work.tensors[0] < holds_.size())
      holds_[work.tensors[0]] = dropped;
    if (work.kind != ExtraWork::Kind::recompute) return {};
    std::string why = wrong(work);
    if (why.empty())
      for (const std::uint32_t t : work.tensors) holds_[t] = work.op;
    return why;
  }

  std::string wrong(const ExtraWork& work) const {
    if (work.op >= work.position) return "it has not run yet";
    const wire::TraceOp& op = trace_.ops[work.op];
    if (!op.recomputable) return "the operation is marked as not recomputable";
    const auto has = [](const std::vector<std::uint32_t>& list, std::uint32_t t) {
      return std::find(list.begin(), list.end(), t) != list.end();
    };
    for (const std::uint32_t t : work.tensors) {
      if (t >= trace_.tensors.size() || !has(op.outputs, t))
        return "the operation did not write what the report says it makes";
    }
    for (const std::uint32_t t : op.inputs) {
      const bool updates_beside = has(op.outputs, t) && !has(work.tensors, t);
      if (updates_beside && trace_.tensors[t].running_statistics) continue;  // a repeated run does not
      if (updates_beside) return "it updates " + name_of(t) + " in place";
      if (holds_[t] == dropped || holds_[t] == before(t, work.op))
        continue;  // what is missing: check_memory()
      const bool newer =
          before(t, work.op) == initial || (holds_[t] != initial && holds_[t] > before(t, work.op));
      return newer ? name_of(t) + " was written after the operation read it"
                   : name_of(t) + " has an older content than the operation read";
    }
    return {};
  }

  std::string kept() const {
    const auto ops = static_cast<std::uint32_t>(trace_.ops.size());
    for (std::uint32_t t = 0; t < holds_.size(); ++t)
      if (trace_.tensors[t].persistent && holds_[t] != dropped && holds_[t] != before(t, ops))
        return "the next step gets an older content of " + name_of(t);
    return {};
  }
};

}  // namespace

std::string check_recomputations(const wire::Trace& trace, const SimulationReport& report) {
  return RecomputeChecker(trace, report).check();
}

}  // namespace terrace::planner
