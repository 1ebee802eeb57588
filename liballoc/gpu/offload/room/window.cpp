#include "liballoc/gpu/offload/room/window.h"

#include <cerrno>
#include <utility>

namespace terrace::liballoc::offload {

void Window::inherit(Tensor* tensor) {
  const std::uint64_t needed = needed_by(*tensor);
  tiers::Extent memory = std::exchange(tensor->memory, {});
  if (needed <= bytes()) return slab_->release(memory);
  slab_->shrink(&memory, needed);
  hold(memory);
}

int Window::take(const Tensor& tensor, bool to_read, Lock& lock) {
  common_->changed.wait(lock, [this] { return !is_busy_; });
  is_busy_ = true;
  int error = 0;
  while ((error = held_.hand_out()) == EAGAIN || (error == ENOSPC && to_read && !tensor.gone))
    common_->changed.wait(lock);
  if (error != 0) leave();
  return error;
}

void Window::leave() {
  is_busy_ = false;
  common_->changed.notify_all();
}

Window::Part Window::part_at(std::uint64_t bytes, std::uint64_t offset) const {
  if (bytes <= this->bytes()) return {offset, bytes - offset};
  return {offset, std::min(this->bytes() / sum_piece_bytes * sum_piece_bytes, bytes - offset)};
}

}  // namespace terrace::liballoc::offload
