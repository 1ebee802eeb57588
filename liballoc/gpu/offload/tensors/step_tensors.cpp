#include "liballoc/gpu/offload/tensors/step_tensors.h"

namespace terrace::liballoc::offload {

void StepTensors::enter(const TensorPtr& tensor) {
  by_position_.push_back(tensor);
  tensor->id = last_id_ + 1;
  tensor->position = order_.stored();
}

void StepTensors::confirm() {
  ++last_id_;
  order_.store();
}

void StepTensors::leave(const Tensor& tensor) {
  if (tensor.position != FetchOrder::none) by_position_[tensor.position] = nullptr;
}

void StepTensors::fetch(const Tensor& tensor) {
  if (tensor.position == FetchOrder::none) return;
  order_.fetch(tensor.position);
  last_fetched_ = tensor.position;
}

void StepTensors::end_step() {
  by_position_.clear();
  from_earlier_steps_.clear();
  order_.end_step();
  cursor_ = last_fetched_ = FetchOrder::none;
  step_begins_ = last_id_;
}

void StepTensors::stay(const TensorPtr& tensor) {
  tensor->position = FetchOrder::none;
  from_earlier_steps_.push_back(tensor);
}

std::size_t StepTensors::expect(std::uint64_t id, std::uint64_t* out, std::size_t count) const {
  if (id > last_id_ || (id != 0 && id <= step_begins_)) return 0;
  std::size_t position = id == 0 ? order_.first() : order_.after(id - step_begins_ - 1);
  std::size_t filled = 0;
  for (; position != FetchOrder::none && filled < count; position = order_.after(position)) {
    const TensorPtr& tensor = by_position_[position];
    if (tensor != nullptr && tensor->to == nullptr && tensor->state != Tensor::State::failed)
      out[filled++] = tensor->id;
  }
  return filled;
}

}  // namespace terrace::liballoc::offload
