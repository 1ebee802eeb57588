#include "daemon/planner/schedule_period.h"

#include <algorithm>
#include <limits>

#include "daemon/planner/order/scheduled.h"

namespace terrace::planner {
namespace {

constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

// FNV-1a over 64-bit words (Fowler, Noll, Vo), each mixed by the finaliser of SplitMix64 (Steele et al.,
// OOPSLA 2014).
class Hash {
 public:
  void add(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    value_ = (value_ ^ word ^ (word >> 31)) * 0x100000001b3;
  }
  void add(const std::vector<std::uint32_t>& list) {
    add(list.size());
    for (const std::uint32_t one : list) add(std::uint64_t{one});
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::vector<std::uint32_t> first_uses(const wire::Trace& trace) {
  std::vector<std::uint32_t> first(trace.tensors.size(), never);
  for (std::size_t op = trace.ops.size(); op-- > 0;) {
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs})
      for (const std::uint32_t t : *list) first[t] = static_cast<std::uint32_t>(op);
  }
  return first;
}

}  // namespace

std::uint64_t period_hash(const wire::Trace& trace) {
  Hash hash;
  hash.add(trace.tensors.size());
  for (const wire::TraceTensor& t : trace.tensors) {
    hash.add(t.bytes);
    hash.add(std::uint64_t{t.persistent ? 1U : 0U});
  }
  for (const wire::TraceOp& op : trace.ops) {
    hash.add(op.inputs);
    hash.add(op.outputs);
  }
  return hash.value();
}

std::vector<wire::ScheduleObject> objects_of(const wire::Trace& trace) {
  const std::vector<std::uint32_t> first = first_uses(trace);
  std::vector<std::uint32_t> born(trace.ops.size() + 1, 0);  // by operation
  std::uint32_t lasting = 0;
  std::vector<wire::ScheduleObject> objects;
  objects.reserve(trace.tensors.size());
  for (std::size_t i = 0; i < trace.tensors.size(); ++i) {
    const wire::TraceTensor& t = trace.tensors[i];
    const std::uint32_t birth = t.persistent ? wire::persistent : first[i] == never ? 0 : first[i];
    objects.push_back({t.id, t.bytes, birth, t.persistent ? lasting++ : born[birth]++});
  }
  return objects;
}

void give_deadlines(const wire::Trace& trace, wire::Schedule* schedule) {
  const auto period = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<std::uint32_t> next(trace.tensors.size(), never);  // use, from the ordinal looked at on
  const std::vector<std::uint32_t> first = first_uses(trace);
  for (std::size_t t = 0; t < next.size(); ++t)
    if (trace.tensors[t].persistent && first[t] != never) next[t] = period + first[t];
  auto e = schedule->entries.rbegin();
  for (std::uint32_t op = period + 1; op-- > 0;) {
    if (op < period) {
      for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs})
        for (const std::uint32_t t : *list) next[t] = op;
    }
    for (; e != schedule->entries.rend() && e->at == op; ++e) {
      if (e->by == wire::no_deadline) e->by = std::min(next[e->object], op + period);
    }
  }
}

void describe(const wire::Trace& trace, wire::Schedule* schedule) {
  schedule->clock = wire::Clock::operations;
  schedule->period = static_cast<std::uint32_t>(trace.ops.size());
  schedule->period_hash = period_hash(trace);
  const auto describe_objects = [schedule](const wire::Trace& as_run) {
    schedule->objects = objects_of(as_run);
    give_deadlines(as_run, schedule);
  };
  if (schedule->operations.empty()) return describe_objects(trace);
  describe_objects(in_order(trace, schedule->operations));
}

}  // namespace terrace::planner
