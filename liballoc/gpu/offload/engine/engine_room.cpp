// Host memory for those who wait for it.
//
// Pinned memory grows beside the engine (memory/slab_keeper.h), and a store that needs it is queued
// meanwhile, as it is when room has to be made by writing to the drive. store() therefore never waits for
// either.
//
//   store ──► room? ──yes──► copy out
//               │ no
//               ▼
//   waiting ──► slab grows ───────────► drive takes others ──► in pieces past host memory ──► refused
//                                  └──► directly to the drive (engine_direct.cpp)
//
// In that order, each when the one before cannot help; where there is a direct path, nobody waits for others
// to be written.
//
// What was released is waited for on every way, also without a drive: its memory is free once the stream has
// passed, and whoever sums or decodes it is through.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {

void Engine::start_keeper() {
  if (on_host()) return;
  keeper_.start({.begin = [this] { begin_thread(); },
                 .wanted = [this] { return wanted_growth(); },
                 .changed =
                     [this] {
                       changed_.notify_all();
                       pump();
                     }});
}

// What whoever waits longest needs the memory thread for.
std::uint64_t Engine::wanted_growth() const {
  for (const TensorPtr& tensor : waiting_)
    if (!tensor->gone) return keeper_.may_grow_aside(wanted_room(*tensor)) ? wanted_room(*tensor) : 0;
  return 0;
}

std::uint64_t Engine::wanted_room(const Tensor& tensor) const {
  if (tensor.in_pieces) return usual_window_bytes();
  return tensor.bytes;
}

// ENOSPC: not now. What is clean is dropped for it once there is no more to be had.
int Engine::room_for(std::uint64_t bytes, tiers::Extent* out) {
  for (;;) {
    const int error = slab_.reserve(bytes, out);
    if (error != ENOSPC) return error;
    if (keeper_.grow_now(bytes)) continue;
    if (keeper_.may_grow_aside(bytes) || !drop_clean(true)) return ENOSPC;
  }
}

// For a frame that the host makes in place, if there is room: it is cut to its size when that is known.
int Engine::room_to_store(Tensor& tensor) {
  if (codec_ != nullptr && room_for(HostCodec::bound(tensor.bytes), &tensor.memory) == 0) return 0;
  return room_for(tensor.bytes, &tensor.memory);
}

// Whether a store may count on room to come; if not, why.
int Engine::may_wait(Tensor& tensor) {
  if (keeper_.may_grow_aside(waiting_bytes_ + tensor.bytes)) return 0;
  demand_.went_without(tensor.bytes);
  if (drive_ == nullptr) return is_released_memory_due() ? 0 : no_room();
  if (drive_error_ != 0) return drive_error_;
  if (drive_->free_bytes() < tensor.bytes) return ENOSPC;
  if (const int error = writes_.take(tensor.bytes); error != 0) return error;
  writes_.untake(tensor.bytes);
  // One that takes more than half would drive out all others, and its frame would not fit beside it.
  const std::uint64_t room = slab_.limit_bytes();
  tensor.in_pieces = tensor.bytes > (room - std::min(room, usual_window_bytes())) / 2;
  return 0;
}

int Engine::queue_for_room(const TensorPtr& tensor) {
  waiting_.push_back(tensor);
  waiting_bytes_ += tensor->bytes;
  pump();
  if (tensor->state != Tensor::State::failed) return 0;
  disown(tensor);
  return tensor->error;
}

void Engine::serve_waiting() {
  claim_window();
  while (!waiting_.empty()) {
    const TensorPtr tensor = waiting_.front();
    if (!settle(tensor)) return;
    waiting_bytes_ -= tensor->bytes;
    waiting_.pop_front();
  }
}

// True: it waits no longer.
bool Engine::settle(const TensorPtr& tensor) {
  if (tensor->gone) return true;
  int error = serve(tensor);
  int refusal = 0;
  if (error == EAGAIN && prefers_direct(*tensor)) {
    waited_ = pressed_ = tensor->in_pieces = true;
    error = serve(tensor);
  }
  if (error == EAGAIN && room_may_come(*tensor, &refusal)) return false;
  if (error == EAGAIN && refusal == 0 && may_go_in_pieces(*tensor)) {
    tensor->in_pieces = true;
    error = serve(tensor);
  }
  if (error == 0) return true;
  tensor->state = Tensor::State::failed;
  tensor->error = error != EAGAIN ? error : refusal != 0 ? refusal : no_room();
  changed_.notify_all();
  return true;
}

// 0, EAGAIN: there is no room yet, or why it will not be stored.
int Engine::serve(const TensorPtr& tensor) {
  int error = 0;
  if (tensor->in_pieces)
    error = room_in_pieces(*tensor);
  else if (room_to_store(*tensor) != 0)
    error = EAGAIN;
  if (error == 0) error = start_copy(*tensor);
  if (error == 0) queue_to_leave(tensor);
  return error;
}

// Begins to write as much as is needed. False when nothing is on its way; *refusal: why nothing is written.
bool Engine::room_may_come(const Tensor& tensor, int* refusal) {
  const std::uint64_t bytes = wanted_room(tensor);
  if (slab_.is_growing() || keeper_.may_grow_aside(bytes)) return true;
  if (drive_ != nullptr) {
    waited_ = pressed_ = true;
    *refusal = make_room(bytes);
  }
  return writing_bytes_ != 0 || leaving_ != 0 || is_released_memory_due();
}

// 0, or why nothing is written; that there is nothing to write is no refusal.
int Engine::make_room(std::uint64_t bytes) {
  if (drive_ == nullptr) return 0;
  int refusal = 0;
  while (writing_bytes_ < bytes && refusal == 0) {
    const TensorPtr victim = next_victim();
    if (victim == nullptr) break;
    refusal = start_write(victim);
  }
  return refusal;
}

}  // namespace terrace::liballoc::offload
