#include "daemon/planner/order/profile.h"

#include <algorithm>

namespace terrace::planner {

OrderModel::OrderModel(const wire::Trace& trace) : bytes_(trace.tensors.size()), uses_(trace.tensors.size()) {
  for (std::size_t t = 0; t < bytes_.size(); ++t) {
    if (trace.tensors[t].persistent) {
      persistent_ += trace.tensors[t].bytes;
    } else {
      bytes_[t] = trace.tensors[t].bytes;
    }
  }
  std::vector<std::uint32_t> names;
  for (const wire::TraceOp& op : trace.ops) {
    names = op.inputs;
    names.insert(names.end(), op.outputs.begin(), op.outputs.end());
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    begin_.push_back(static_cast<std::uint32_t>(named_.size()));
    for (const std::uint32_t t : names) {
      if (bytes_[t] == 0) continue;
      named_.push_back(t);
      ++uses_[t];
    }
    workspace_.push_back(op.workspace_bytes);
  }
  begin_.push_back(static_cast<std::uint32_t>(named_.size()));
}

LiveBytes::LiveBytes(const OrderModel& model) : model_(&model), left_(model.tensors()) {
  for (std::uint32_t t = 0; t < model.tensors(); ++t) left_[t] = model.uses(t);
}

LiveBytes::Step LiveBytes::ask(std::uint32_t op) const {
  Step step{live_, live_};
  for (const std::uint32_t t : model_->names(op)) {
    const std::uint64_t bytes = model_->bytes(t);
    if (left_[t] == model_->uses(t)) {
      step.during += bytes;
      step.after += bytes;
    }
    if (left_[t] == 1) step.after -= bytes;
  }
  step.during += model_->workspace(op);
  return step;
}

LiveBytes::Step LiveBytes::run(std::uint32_t op) {
  const Step step = ask(op);
  for (const std::uint32_t t : model_->names(op)) --left_[t];
  live_ = step.after;
  return step;
}

}  // namespace terrace::planner
