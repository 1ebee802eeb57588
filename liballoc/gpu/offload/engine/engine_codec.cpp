// Frames made and taken apart by the device (device_codec.h).
//
//   store()   frame crew: await ready ─ take a piece ─ kernel ─ await it ─ copy its bytes   ──► out crew
//   in crew   take a piece ─ copy ─ kernel   ──► verdict crew: await it ─ tell
//
// The frame crew waits for `ready` before it takes a piece: the host runs ahead of the device, and pieces
// must not be held by tensors that nobody has computed yet. leave() does not wait for that: where the kernel
// is not launched yet it queues a copy of the tensor as it is, and the crew finds `departed`. arrive() waits
// for the verdict, though not for the device itself: damaged bytes are not followed by an order to use them.
// After a fetch in good time the verdict is there.
#include <cerrno>
#include <utility>

#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {

void Engine::plan_codec(Tensor& tensor) {
  if (device_codec_ == nullptr) return;
  tensor.pressed = pressed_;
  if (device_codec_->holds(tensor))
    tensor.codec_to_try = device_codec_->choose(tensor);
  else if (device_codec_->compresses())
    ++counts_.not_staged;
}

// By a thread of the frame crew.
void Engine::make_frame(const TensorPtr& tensor) {
  int error = link_->device().synchronize(tensor->ready);
  if (error == 0) error = run_encoder(*tensor);
  if (error == 0) error = tensor->direct ? write_directly(*tensor) : copy_what_was_made(*tensor);
  {
    const Lock lock(mutex_);
    if (error != 0) tensor->error = error;
  }
  out_crew_.queue(tensor);
}

// Without a piece, or where the kernel cannot be launched, the tensor goes as it is.
int Engine::run_encoder(Tensor& tensor) {
  Piece* piece = device_codec_->take(tensor);
  Lock lock(mutex_);
  if (piece == nullptr) {
    ++counts_.not_staged;
    return 0;
  }
  if (tensor.gone || tensor.departed != nullptr) {
    device_codec_->give(piece);
    return 0;
  }
  const int error = device_codec_->encode(tensor, *piece, &tensor.coded);
  lock.unlock();
  if (error != 0) {
    device_codec_->abandon(piece);
    return 0;
  }
  tensor.leaving_piece = piece;
  return link_->device().synchronize(tensor.coded);
}

// The source is read only while the tensor is somebody's: who released it may have given its memory away.
int Engine::copy_what_was_made(Tensor& tensor) {
  DeviceCodec::Made made;
  if (tensor.leaving_piece != nullptr) made = device_codec_->made(tensor, *tensor.leaving_piece);
  const Lock lock(mutex_);
  counts_.compress_ns += made.ns;
  if (tensor.gone || tensor.departed != nullptr) return 0;
  auto* from = const_cast<std::byte*>(tensor.source);
  if (made.is_worth_keeping) {
    tensor.codec = tensor.codec_to_try;
    tensor.stored_bytes = made.bytes;
    counts_.compressed_bytes += tensor.bytes;
    counts_.frame_bytes += made.bytes;
    slab_.shrink(&tensor.memory, made.bytes);
    from = device_codec_->frame(*tensor.leaving_piece);
  } else if (tensor.leaving_piece != nullptr) {
    device_codec_->give(std::exchange(tensor.leaving_piece, nullptr));
  }
  tensor.copy_begun_ns = os::now_ns();
  const DeviceLink::Move move{&slab_, tensor.memory.offset, from, tensor.stored_bytes};
  return link_->copy_out(move, tensor.ready, &tensor.departed);
}

// By a thread of the out crew, once the copy has passed.
void Engine::give_back_piece(Tensor& tensor) {
  if (tensor.departed != nullptr)
    device_codec_->crossed_link(tensor.stored_bytes, tensor.copy_begun_ns, os::now_ns());
  device_codec_->give(std::exchange(tensor.leaving_piece, nullptr));
}

// 0: the rest is in the device's streams, and judge()'s.
int Engine::carry_frame_by_device(Tensor& tensor, Lock& lock) {
  lock.unlock();
  Piece* piece = device_codec_->take(tensor);
  lock.lock();
  if (piece == nullptr) return ENOMEM;
  const int error = device_codec_->decode(tensor, *piece, &tensor.arrived);
  if (error == 0) {
    tensor.arriving_piece = piece;
    return 0;
  }
  lock.unlock();
  device_codec_->abandon(piece);
  lock.lock();
  return error;
}

// By the thread of the verdict crew.
void Engine::judge(const TensorPtr& tensor) {
  std::uint64_t ns = 0;
  int error = link_->device().synchronize(tensor->arrived);
  if (error == 0) error = device_codec_->verdict(*tensor, *tensor->arriving_piece, &ns);
  device_codec_->give(std::exchange(tensor->arriving_piece, nullptr));
  const Lock lock(mutex_);
  counts_.decompress_ns += ns;
  if (error == EBADMSG && comes_by_cufile(*tensor)) {
    give_up_cufile(*tensor);
    tensor->arrival = Tensor::Arrival::queued;
    in_crew_.queue(tensor);
  } else {
    if (error == EBADMSG) ++counts_.checksum_failures;
    tensor->arrival = error == 0 ? Tensor::Arrival::under_way : Tensor::Arrival::failed;
    tensor->arrival_error = error;
  }
  end_use(*tensor);
  changed_.notify_all();
  pump();
}

}  // namespace terrace::liballoc::offload
