#include "liballoc/gpu/offload/engine/uses.h"

#include <utility>

namespace terrace::liballoc::offload {

void Uses::forget(Tensor& tensor) {
  tensor.gone = true;
  ++ending_;
  ++tensor.users;
  common_->counts.live_bytes -= tensor.bytes;
  common_->changed.notify_all();
}

int Uses::release(Tensor& tensor, Stream stream, Lock& lock) {
  forget(tensor);
  wait_for_hands(tensor, lock);
  int error = 0;
  if (common_->host_waits())
    synchronize(tensor, lock);
  else
    error = order_behind(tensor, stream);
  end(tensor);
  return error;
}

void Uses::see_off(Tensor& tensor, Lock& lock) {
  wait_for_hands(tensor, lock);
  synchronize(tensor, lock);
  common_->changed.wait(lock, [&] { return tensor.users == 1; });
  end(tensor);
}

// Until no thread of the host touches the caller's memory.
void Uses::wait_for_hands(Tensor& tensor, Lock& lock) {
  common_->changed.wait(lock,
                        [&] { return !tensor.source_in_use && tensor.arrival != Tensor::Arrival::running; });
}

int Uses::order_behind(const Tensor& tensor, Stream stream) {
  for (const Event event : {tensor.coded, tensor.departed, tensor.arrived})
    if (common_->is_pending(event))
      if (const int error = common_->device().wait(stream, event); error != 0) return error;
  return 0;
}

void Uses::synchronize(const Tensor& tensor, Lock& lock) {
  if (common_->on_host()) return;
  const Event events[] = {tensor.coded, tensor.departed, tensor.arrived};
  lock.unlock();
  for (const Event event : events) common_->synchronized(event, 0);
  lock.lock();
}

void Uses::end(Tensor& tensor) {
  --tensor.users;
  if (!tensor.gone) return;
  common_->changed.notify_all();
  if (tensor.users != 0) return;
  --ending_;
  free(tensor);
  common_->stir();
}

void Uses::free(Tensor& tensor) {
  host_->release(tensor);
  if (drive_->is_open()) drive_->release(tensor);
  for (Event* event : {&tensor.ready, &tensor.coded, &tensor.departed, &tensor.to_free, &tensor.arrived})
    if (*event != nullptr) common_->link->give_event(std::exchange(*event, nullptr));
}

}  // namespace terrace::liballoc::offload
