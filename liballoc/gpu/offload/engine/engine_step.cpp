// How a tensor ends: released by the caller, or with its step.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {

int Engine::release(std::uint64_t id, void* stream) {
  if (!takes(stream)) return EINVAL;
  Lock lock(mutex_);
  const TensorPtr tensor = find(id);
  if (tensor == nullptr) return ENOENT;
  live_.erase(id);
  step_.leave(*tensor);
  forget(*tensor);
  wait_for_hands(*tensor, lock);
  int error = 0;
  if (host_waits())
    synchronize(*tensor, lock);
  else
    error = order_behind(*tensor, static_cast<Stream>(stream));
  end_use(*tensor);
  return error;
}

// Whoever forgets is a user until he has waited: the events that he waits for must stay the tensor's.
void Engine::forget(Tensor& tensor) {
  tensor.gone = true;
  ++ending_;
  ++tensor.users;
  counts_.live_bytes -= tensor.bytes;
  changed_.notify_all();
}

// Until no thread of the host touches the caller's memory.
void Engine::wait_for_hands(Tensor& tensor, Lock& lock) {
  changed_.wait(lock, [&] { return !tensor.source_in_use && tensor.arrival != Tensor::Arrival::running; });
}

int Engine::order_behind(const Tensor& tensor, Stream stream) {
  for (const Event event : {tensor.coded, tensor.departed, tensor.arrived})
    if (is_pending(event))
      if (const int error = link_->device().wait(stream, event); error != 0) return error;
  return 0;
}

// Errors of the device's work have no one to go to: the tensor is forgotten.
void Engine::synchronize(const Tensor& tensor, Lock& lock) {
  if (on_host()) return;
  const Event events[] = {tensor.coded, tensor.departed, tensor.arrived};
  lock.unlock();
  for (const Event event : events)
    if (event != nullptr) link_->device().synchronize(event);
  lock.lock();
}

// The last user of what was released frees it.
void Engine::end_use(Tensor& tensor) {
  --tensor.users;
  if (!tensor.gone) return;
  changed_.notify_all();
  if (tensor.users != 0) return;
  --ending_;
  free_parts(tensor);
  pump();
}

void Engine::free_parts(Tensor& tensor) {
  not_clean(tensor);
  if (tensor.read_ahead) {
    ++counts_.read_ahead_wasted;
    was_asked_for(tensor);
  }
  charge(tensor, 0);  // what was never written
  if (tensor.disk.bytes != 0) drive_->release(std::exchange(tensor.disk, {}));
  const tiers::Extent memory = std::exchange(tensor.memory, {});
  if (memory.bytes != 0) {
    // A copy out that was refused half-way still writes to it, one back may still read from it.
    Event& under_way = is_pending(tensor.departed) ? tensor.departed : tensor.arrived;
    if (is_pending(under_way))
      retire(memory, std::exchange(under_way, nullptr));
    else
      slab_.release(memory);
  }
  for (Event* event : {&tensor.ready, &tensor.coded, &tensor.departed, &tensor.to_free, &tensor.arrived})
    if (*event != nullptr) link_->give_event(std::exchange(*event, nullptr));
}

void Engine::retire(const tiers::Extent& extent, Event event) { retired_.push_back({extent, event}); }

void Engine::collect_retired() {
  std::erase_if(retired_, [this](const Retired& retired) {
    if (is_pending(retired.event)) return false;
    slab_.release(retired.extent);
    link_->give_event(retired.event);
    return true;
  });
}

int Engine::next_step() {
  const Lock lock(mutex_);
  step_.end_step();
  for (const auto& [id, tensor] : live_) step_.stay(tensor);
  end_memorys_step();
  return 0;
}

int Engine::end_step() {
  Lock lock(mutex_);
  const auto left_over = std::exchange(live_, {});
  step_.end_step();
  counts_.dropped += left_over.size();
  for (const auto& [id, tensor] : left_over) forget(*tensor);
  for (const auto& entry : left_over) {
    Tensor& tensor = *entry.second;
    wait_for_hands(tensor, lock);
    synchronize(tensor, lock);
    changed_.wait(lock, [&] { return tensor.users == 1; });
    end_use(tensor);
  }
  end_memorys_step();
  return 0;
}

// What the next step may not need is given back, and what was refused in this one may be tried again.
void Engine::end_memorys_step() {
  demand_.end_step();
  collect_retired();
  end_drives_step();
  keeper_.end_step();
  pump();
}

std::size_t Engine::expect(std::uint64_t id, std::uint64_t* out, std::size_t count) {
  const Lock lock(mutex_);
  return step_.expect(id, out, count);
}

}  // namespace terrace::liballoc::offload
