#include "liballoc/gpu/offload/engine/windowed_path.h"

#include <cerrno>
#include <cstring>

#include "liballoc/gpu/offload/codec/stored_sum.h"

namespace terrace::liballoc::offload {

int WindowedPath::carry_out(Tensor& tensor) {
  Lock lock(common_->mutex);
  std::uint64_t sum = tensor.id;
  int error = window_->take(tensor, false, lock);
  if (error != 0) return error;
  for (std::uint64_t at = 0; error == 0 && at < tensor.bytes;) {
    const Part part = window_->part_at(tensor.bytes, at);
    error = to_window(tensor, part, &sum, lock);
    if (error == 0) error = by_drive(tensor, part, tiers::Direction::write, lock);
    if (error == 0 && tensor.gone) error = ECANCELED;
    at += part.bytes;
  }
  window_->leave();
  tensor.sum = sum;
  tensor.proof = Tensor::Proof::sum;
  common_->proofs.count(tensor.bytes);
  tensor.disk_filled = error == 0;
  if (error == 0) ++common_->counts.in_pieces;
  return error;
}

int WindowedPath::to_window(Tensor& tensor, const Part& part, std::uint64_t* sum, Lock& lock) {
  std::byte* window = window_->memory();
  const std::byte* source = tensor.source + part.offset;
  int error = 0;
  if (!common_->on_host())
    error = common_->link->copy_out(window_->move(source, part.bytes), tensor.ready, &tensor.departed);
  lock.unlock();
  if (common_->on_host()) {
    *sum = copy_and_sum(window, source, part.bytes, *sum);
  } else {
    error = common_->synchronized(tensor.departed, error);
    if (error == 0) *sum = stored_sum(window, part.bytes, *sum);
  }
  lock.lock();
  return error;
}

int WindowedPath::carry_in(Tensor& tensor, std::byte* to, Event to_free, Lock& lock) {
  std::uint64_t sum = tensor.id;
  std::uint64_t at = 0;
  int error = window_->take(tensor, true, lock);
  if (error != 0) return error;
  while (error == 0 && at < tensor.stored_bytes) {
    const Part part = window_->part_at(tensor.stored_bytes, at);
    error = by_drive(tensor, part, tiers::Direction::read, lock);
    if (error == 0) error = from_window(tensor, part, to, to_free, &sum, lock);
    at += part.bytes;
  }
  if (error == 0 && sum != tensor.sum) error = EBADMSG;
  if (error != 0) spoil(tensor, at, to, to_free, lock);
  window_->leave();
  return error;
}

int WindowedPath::carry_in_frame(Tensor& tensor, const std::function<int(const std::byte* frame)>& take,
                                 Lock& lock) {
  int error = window_->take(tensor, true, lock);
  if (error != 0) return error;
  error = by_drive(tensor, {0, tensor.stored_bytes}, tiers::Direction::read, lock);
  if (error == 0) {
    lock.unlock();
    error = take(window_->memory());
    lock.lock();
  }
  window_->leave();
  return error;
}

// With `sum` a part of the tensor, without one whatever is in the window.
int WindowedPath::from_window(Tensor& tensor, const Part& part, std::byte* to, Event to_free,
                              std::uint64_t* sum, Lock& lock) {
  int error = 0;
  if (!common_->on_host())
    error = common_->link->copy_in(window_->move(to + part.offset, part.bytes), to_free, &tensor.arrived);
  lock.unlock();
  if (common_->on_host()) std::memcpy(to + part.offset, window_->memory(), part.bytes);
  if (sum != nullptr) common_->proofs.add_part(tensor, window_->memory(), part.offset, part.bytes, sum);
  if (!common_->on_host()) error = common_->synchronized(tensor.arrived, error);
  lock.lock();
  return error;
}

// Nobody must take what has come of it for the tensor.
void WindowedPath::spoil(Tensor& tensor, std::uint64_t bytes, std::byte* to, Event to_free, Lock& lock) {
  std::memset(window_->memory(), poison, window_->bytes());
  for (std::uint64_t at = 0; at < bytes;) {
    const Part part = window_->part_at(tensor.stored_bytes, at);
    from_window(tensor, part, to, to_free, nullptr, lock);
    at += part.bytes;
  }
}

int WindowedPath::by_drive(Tensor& tensor, const Part& part, tiers::Direction direction, Lock& lock) {
  const bool out = direction == tiers::Direction::write;
  tensor.drive = out ? Tensor::Drive::writing : Tensor::Drive::reading;
  drive_->drive().queue({.tensor = tensor.shared_from_this(),
                         .direction = direction,
                         .urgent = !out,
                         .is_part = true,
                         .memory = window_->memory(),
                         .extent = {tensor.disk.offset + part.offset, whole_blocks(part.bytes)}});
  common_->changed.wait(lock, [&tensor] { return tensor.drive == Tensor::Drive::idle; });
  return tensor.part_error;
}

void WindowedPath::done(const Drive::Job& job, int error) {
  drive_->ended(job, error);
  job.tensor->part_error = error;
  common_->changed.notify_all();
}

}  // namespace terrace::liballoc::offload
