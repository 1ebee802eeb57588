// The way out.
#include <cerrno>

#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {
namespace {

bool is_valid(const terrace_offload_tensor& tensor) {
  return tensor.size >= sizeof(tensor) && tensor.data != nullptr && tensor.bytes != 0 &&
         tensor.element >= 0 && tensor.element < compression::element_type_count;
}

TensorPtr make_tensor(const terrace_offload_tensor& from) {
  auto tensor = std::make_shared<Tensor>();
  tensor->source = static_cast<const std::byte*>(from.data);
  tensor->bytes = from.bytes;
  tensor->element = static_cast<compression::ElementType>(from.element);
  tensor->site = from.site;
  return tensor;
}

}  // namespace

int Engine::store(const terrace_offload_tensor& from, void* stream, std::uint64_t* id, bool* left) {
  if (!is_valid(from) || id == nullptr || !takes(stream)) return EINVAL;
  const TensorPtr tensor = make_tensor(from);
  Lock lock(mutex_);
  plan_codec(*tensor);
  collect_retired();
  // With a drive in the order of the stores; what waits for memory to grow may be overtaken.
  int error = waiting_.empty() || drive_ == nullptr ? room_to_store(*tensor) : ENOSPC;
  const bool waits = error == ENOSPC;
  if (waits) error = may_wait(*tensor);
  if (error != 0) return error;
  if (waits) tensor->state = Tensor::State::waiting;
  error = adopt(tensor, static_cast<Stream>(stream));
  if (error == 0 && waits) error = queue_for_room(tensor);
  if (error != 0) {
    drop_refused(*tensor, static_cast<Stream>(stream), lock);
    return error;
  }
  *id = tensor->id;
  if (waits) {
    if (left != nullptr) *left = false;
    return 0;
  }
  if (is_finished_at_once(*tensor))
    finish_store(tensor, lock);
  else
    queue_to_leave(tensor);
  if (left != nullptr) *left = tell_left(*tensor);
  return 0;
}

bool Engine::is_finished_at_once(const Tensor& tensor) {
  return is_brief(tensor) && (on_host() || !is_pending(tensor.departed));
}

void Engine::queue_to_leave(const TensorPtr& tensor) {
  const bool as_it_is =
      !tensor->direct && (tensor->in_pieces || tensor->codec_to_try == compression::Codec::raw);
  (as_it_is ? out_crew_ : frame_crew_).queue(tensor);
}

// What may throw comes first.
int Engine::adopt(const TensorPtr& tensor, Stream stream) {
  step_.enter(tensor);
  live_.emplace(tensor->id, tensor);
  if (const int error = begin_store(*tensor, stream); error != 0) {
    live_.erase(tensor->id);
    step_.withdraw();
    return error;
  }
  step_.confirm();
  ++counts_.stored;
  counts_.stored_bytes += tensor->bytes;
  counts_.live_bytes += tensor->bytes;
  return 0;
}

// A copy out that was refused half-way is still under way: the source is the caller's behind it, as after
// release(), and the memory the slab's.
void Engine::drop_refused(Tensor& tensor, Stream stream, Lock& lock) {
  if (host_waits())
    synchronize(tensor, lock);
  else
    order_behind(tensor, stream);
  free_parts(tensor);
}

// As if it had never been, but for its number.
void Engine::disown(const TensorPtr& tensor) {
  live_.erase(tensor->id);
  step_.leave(*tensor);
  tensor->gone = true;
  --counts_.stored;
  counts_.stored_bytes -= tensor->bytes;
  counts_.live_bytes -= tensor->bytes;
}

int Engine::begin_store(Tensor& tensor, Stream stream) {
  tensor.stored_bytes = tensor.bytes;
  if (!on_host())
    if (const int error = link_->mark(stream, &tensor.ready); error != 0) return error;
  return tensor.state == Tensor::State::waiting ? 0 : start_copy(tensor);
}

int Engine::start_copy(Tensor& tensor) {
  tensor.state = Tensor::State::leaving;
  tensor.pressed = pressed_;
  if (!by_hand(tensor)) ++tensor.users;  // until finish_store(): the device writes to the slab
  if (!by_hand(tensor) && !tensor.direct && tensor.codec_to_try == compression::Codec::raw) {
    auto* source = const_cast<std::byte*>(tensor.source);  // a Move goes either way; this one only reads it
    const DeviceLink::Move move{&slab_, tensor.memory.offset, source, tensor.bytes};
    if (const int error = link_->copy_out(move, tensor.ready, &tensor.departed); error != 0) {
      --tensor.users;
      return error;
    }
  }
  ++leaving_;
  return 0;
}

// By a thread of the crew, or the caller's.
void Engine::finish_store(const TensorPtr& tensor, Lock& lock) {
  const bool by_hand = this->by_hand(*tensor);
  if (!by_hand || !tensor->gone) {
    if (by_hand) ++tensor->users;
    tensor->source_in_use = by_hand;
    lock.unlock();
    const int error = carry_out(*tensor);
    lock.lock();
    tensor->source_in_use = false;
    if (error != 0) charge(*tensor, 0);
    tensor->error = error;
    tensor->memory_filled = error == 0 && !tensor->in_pieces;
    tensor->state = error == 0 ? Tensor::State::stored : Tensor::State::failed;
    if (!tensor->in_pieces) slab_.shrink(&tensor->memory, tensor->stored_bytes);
    end_use(*tensor);
  }
  --leaving_;
  changed_.notify_all();
  pump();
}

int Engine::carry_out(Tensor& tensor) {
  if (tensor.direct) return end_direct_store(tensor);
  if (tensor.in_pieces) return carry_out_in_pieces(tensor);
  if (on_host()) return carry_out_on_host(tensor);
  const int error = departed(tensor);
  if (tensor.leaving_piece != nullptr) give_back_piece(tensor);
  if (error != 0 || tensor.departed == nullptr) return error;  // gone before it was copied
  proofs_.take(tensor, slab_.at(tensor.memory));
  return 0;
}

// Once its copy out has passed. How long that took begins when the stream had made the source.
int Engine::departed(Tensor& tensor) {
  std::uint64_t begun_ns = 0;
  const bool is_timed = planner_ != nullptr && tensor.codec_to_try == compression::Codec::raw &&
                        tensor.error == 0 && link_->device().synchronize(tensor.ready) == 0;
  if (is_timed) begun_ns = os::now_ns();
  const int error = synchronized(tensor.departed, tensor.error);  // an error: of an attempt to make a frame
  if (is_timed && error == 0)
    planner_->transferred(StepPlanner::Way::out, tensor.bytes, begun_ns, os::now_ns());
  return error;
}

int Engine::carry_out_on_host(Tensor& tensor) {
  std::byte* memory = slab_.at(tensor.memory);
  if (codec_ != nullptr && encode(tensor, memory)) {
    proofs_.take(tensor, memory);
    return 0;
  }
  const std::uint64_t start = os::now_ns();
  proofs_.take_copy(tensor, memory, drive_ != nullptr);
  if (codec_ != nullptr) codec_->moved(HostCodec::Way::memory, true, tensor.bytes, os::now_ns() - start);
  return 0;
}

// True if `frame`, which may be the tensor's memory, is what to store.
bool Engine::encode(Tensor& tensor, std::byte* frame) {
  const std::uint64_t bound = HostCodec::bound(tensor.bytes);
  if (tensor.memory.bytes < bound) return false;
  const auto way = tensor.pressed ? HostCodec::Way::drive : HostCodec::Way::memory;
  const auto made = codec_->encode(tensor, {tensor.source, tensor.bytes}, {frame, bound}, way);
  const Lock lock(mutex_);
  counts_.compress_ns += made.ns;
  if (made.codec == compression::Codec::raw) return false;
  counts_.compressed_bytes += tensor.bytes;
  counts_.frame_bytes += made.bytes;
  tensor.codec = made.codec;
  tensor.stored_bytes = made.bytes;
  return true;
}

// The copy out has passed, and so has one that handed the source back. Its crew may not have seen it yet.
bool Engine::source_is_free(Tensor& tensor) {
  if (tensor.handed_back && (is_moving(tensor) || is_pending(tensor.arrived))) return false;
  if (tensor.state == Tensor::State::stored) return true;
  return !by_hand(tensor) && tensor.state == Tensor::State::leaving && tensor.departed != nullptr &&
         !is_pending(tensor.departed);
}

bool Engine::tell_left(Tensor& tensor) {
  tensor.left_told = tensor.left_told || source_is_free(tensor);
  return tensor.left_told;
}

int Engine::left(std::uint64_t id, bool* out) {
  const Lock lock(mutex_);
  const TensorPtr tensor = find(id);
  if (tensor == nullptr) return ENOENT;
  if (!waiting_.empty() && !retired_.empty()) pump();
  if (tensor->state == Tensor::State::failed) return tensor->error;
  *out = tell_left(*tensor);
  return 0;
}

int Engine::leave(std::uint64_t id, void* stream, bool* out) {
  if (!takes(stream)) return EINVAL;
  Lock lock(mutex_);
  const TensorPtr tensor = find(id);
  if (tensor == nullptr) return ENOENT;
  if (!waiting_.empty() && !retired_.empty()) pump();
  if (host_waits()) wait_until_left(*tensor, lock);
  if (tensor->gone) return ENOENT;
  if (tensor->state == Tensor::State::failed) return tensor->error;
  if (tell_left(*tensor) || host_waits()) {
    *out = tensor->left_told;
    return 0;
  }
  return let_stream_wait(*tensor, static_cast<Stream>(stream), out);
}

// What waits for room, or goes in pieces, may take as long as a drive does: not for that.
void Engine::wait_until_left(Tensor& tensor, Lock& lock) {
  const std::uint64_t start = os::now_ns();
  ++tensor.users;
  changed_.wait(lock,
                [&] { return tensor.gone || tensor.in_pieces || tensor.state != Tensor::State::leaving; });
  end_use(tensor);
  counts_.host_wait_ns += os::now_ns() - start;
}

// Of the whole tensor, and by the device. A tensor whose frame nobody has begun to make goes as it is: frames
// are made when the device gets there (engine_codec.cpp), which may be long after the host wants the memory.
bool Engine::has_copy_queued(Tensor& tensor) {
  if (tensor.state != Tensor::State::leaving || by_hand(tensor) || tensor.direct || tensor.error != 0)
    return false;
  if (tensor.departed == nullptr && tensor.coded == nullptr) {
    auto* source = const_cast<std::byte*>(tensor.source);
    const DeviceLink::Move move{&slab_, tensor.memory.offset, source, tensor.bytes};
    tensor.error = link_->copy_out(move, tensor.ready, &tensor.departed);
  }
  return tensor.departed != nullptr && tensor.error == 0;
}

// What was handed back is copied from the source, too.
int Engine::let_stream_wait(Tensor& tensor, Stream stream, bool* out) {
  if (!has_copy_queued(tensor) || (tensor.handed_back && is_moving(tensor))) {
    *out = false;
    return 0;
  }
  if (const int error = order_behind(tensor, stream); error != 0) return error;
  *out = tensor.left_told = true;
  return 0;
}

}  // namespace terrace::liballoc::offload
