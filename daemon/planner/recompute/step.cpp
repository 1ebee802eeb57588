#include "daemon/planner/recompute/step.h"

#include <algorithm>
#include <cmath>

namespace terrace::planner::recompute {
namespace {

// The content that each tensor of a trace has at the operation that is being added.
class Contents {
 public:
  Contents(const wire::Trace& trace, StepBuilder* builder)
      : trace_(trace), builder_(*builder), now_(trace.tensors.size(), nothing) {}

  void add_persistent() {
    for (std::uint32_t t = 0; t < now_.size(); ++t)
      if (trace_.tensors[t].persistent) now_[t] = builder_.add_constant(trace_.tensors[t].bytes);
  }

  std::uint32_t read(std::uint32_t tensor) {
    if (now_[tensor] == nothing) now_[tensor] = builder_.add_constant(trace_.tensors[tensor].bytes);
    return now_[tensor];
  }

  void write(std::uint32_t tensor) { now_[tensor] = builder_.add_result(trace_.tensors[tensor].bytes); }

  void keep_persistent() {
    for (std::uint32_t t = 0; t < now_.size(); ++t)
      if (trace_.tensors[t].persistent) builder_.keep(now_[t]);
  }

 private:
  const wire::Trace& trace_;
  StepBuilder& builder_;
  std::vector<std::uint32_t> now_;
};

void add(const wire::TraceOp& op, Contents* contents, StepBuilder* builder) {
  std::vector<std::uint32_t> reads;
  for (const std::uint32_t t : op.inputs) reads.push_back(contents->read(t));
  builder->add_operation(std::llround(op.time_us * 1000), reads);
  builder->set_workspace(op.workspace_bytes);
  if (!op.recomputable) builder->set_unrepeatable();
  for (auto t = op.outputs.begin(); t != op.outputs.end(); ++t)
    if (std::find(op.outputs.begin(), t, *t) == t) contents->write(*t);
}

bool makes_gradient(const wire::Trace& trace, const wire::TraceOp& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](std::uint32_t t) { return trace.tensors[t].kind == wire::TensorKind::gradient; });
}

bool makes_something(const Step& step, std::uint32_t operation) {
  return !step.operations[operation].makes.empty();
}

}  // namespace

std::uint32_t StepBuilder::add_constant(std::uint64_t bytes) {
  step_.storages.push_back({bytes, nothing, {}, false});
  step_.constant_bytes += bytes;
  return static_cast<std::uint32_t>(step_.storages.size() - 1);
}

std::uint32_t StepBuilder::add_operation(std::int64_t cost_ns, const std::vector<std::uint32_t>& reads) {
  const auto index = static_cast<std::uint32_t>(step_.operations.size());
  Operation& op = step_.operations.emplace_back();
  op.cost_ns = cost_ns;
  step_.cost_ns += cost_ns;
  for (const std::uint32_t s : reads) {
    std::vector<std::uint32_t>& readers = step_.storages[s].readers;
    if (!readers.empty() && readers.back() == index) continue;
    readers.push_back(index);
    op.reads.push_back(s);
  }
  return index;
}

std::uint32_t StepBuilder::add_result(std::uint64_t bytes) {
  const auto maker = static_cast<std::uint32_t>(step_.operations.size() - 1);
  const auto storage = static_cast<std::uint32_t>(step_.storages.size());
  step_.storages.push_back({bytes, maker, {}, false});
  step_.operations.back().makes.push_back(storage);
  step_.operations.back().made_bytes += bytes;
  return storage;
}

Step StepBuilder::finish(bool keeps_unread) {
  for (Storage& s : step_.storages) {
    const bool used = std::any_of(s.readers.begin(), s.readers.end(),
                                  [this](std::uint32_t op) { return makes_something(step_, op); });
    const bool lost_for_good = !s.constant() && !step_.operations[s.maker].repeatable;
    s.kept = s.kept || (keeps_unread && !used) || lost_for_good;
  }
  return std::move(step_);
}

Result<Step> step_of(const wire::Trace& trace, bool keeps_unread) {
  if (!trace.reads_known) return refused<Step>("the trace does not say what operations read");
  StepBuilder builder;
  Contents contents(trace, &builder);
  contents.add_persistent();
  bool backward = false;
  for (const wire::TraceOp& op : trace.ops) {
    add(op, &contents, &builder);
    if (!backward && makes_gradient(trace, op)) builder.begin_backward();
    backward = backward || makes_gradient(trace, op);
  }
  contents.keep_persistent();
  return ok(builder.finish(keeps_unread));
}

Result<Step> step_of(const NodeGraph& graph) {
  const std::size_t nodes = graph.cost_ns.size();
  if (graph.bytes.size() != nodes) return refused<Step>("as many sizes as costs are needed");
  std::vector<std::vector<std::uint32_t>> reads(nodes);
  for (const auto& [from, to] : graph.edges) {
    if (from >= to || to >= nodes) return refused<Step>("an edge leads backward or nowhere");
    reads[to].push_back(from);
  }
  StepBuilder builder;
  for (std::size_t i = 0; i < nodes; ++i) {
    builder.add_operation(graph.cost_ns[i], reads[i]);
    if (i == graph.backward_begins) builder.begin_backward();
    builder.add_result(graph.bytes[i]);
  }
  return ok(builder.finish());
}

std::uint64_t peak_bytes_of(const Step& step) {
  std::uint64_t live = step.constant_bytes, peak = live;
  for (std::uint32_t i = 0; i < step.operations.size(); ++i) {
    const Operation& op = step.operations[i];
    live += op.made_bytes;
    peak = std::max(peak, live + op.workspace_bytes);
    for (const std::uint32_t s : op.reads) {
      const Storage& storage = step.storages[s];
      if (!storage.constant() && !storage.kept && storage.readers.back() == i) live -= storage.bytes;
    }
  }
  return peak;
}

std::uint64_t least_bytes_of(const Step& step) {
  std::uint64_t most = 0;
  for (const Storage& s : step.storages) most += s.kept && !s.constant() ? s.bytes : 0;
  for (const Operation& op : step.operations) {
    std::uint64_t bytes = op.made_bytes + op.workspace_bytes;
    for (const std::uint32_t s : op.reads)
      if (!step.storages[s].constant()) bytes += step.storages[s].bytes;
    most = std::max(most, bytes);
  }
  return step.constant_bytes + most;
}

}  // namespace terrace::planner::recompute
