// The way back.
#include <cerrno>
#include <cstring>

#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {
namespace {

// What a caller who ignores the error finds: no number, of any floating-point type.
constexpr int poison = 0xff;

}  // namespace

int Engine::fetch(std::uint64_t id, void* to, void* stream) {
  if (to == nullptr || !takes(stream)) return EINVAL;
  Lock lock(mutex_);
  const TensorPtr tensor = find(id);
  if (tensor == nullptr) return ENOENT;
  const bool begins = tensor->arrival == Tensor::Arrival::none;
  const int error = begin_fetch(tensor, to, static_cast<Stream>(stream));
  if (error != 0 || !begins || tensor->arrival != Tensor::Arrival::queued) return error;
  if (is_brief(*tensor) && (tensor->handed_back || tensor->memory_filled))
    run_arrival(tensor, lock);
  else
    in_crew_.queue(tensor);
  return 0;
}

// What is queued is left to arrive(), which brings it in itself.
int Engine::fetch_arrive(std::uint64_t id, void* to, void* stream) {
  if (to == nullptr || !takes(stream)) return EINVAL;
  Lock lock(mutex_);
  const TensorPtr tensor = find(id);
  if (tensor == nullptr) return ENOENT;
  if (const int error = begin_fetch(tensor, to, static_cast<Stream>(stream)); error != 0) return error;
  return arrive(tensor, static_cast<Stream>(stream), lock);
}

int Engine::begin_fetch(const TensorPtr& tensor, void* to, Stream stream) {
  if (tensor->state == Tensor::State::failed) return tensor->error;
  if (tensor->arrival == Tensor::Arrival::failed) return tensor->arrival_error;
  if (tensor->arrival != Tensor::Arrival::none) return tensor->to == to ? 0 : EALREADY;
  return start_fetch(tensor, static_cast<std::byte*>(to), stream);
}

// The source is the caller's again from the moment that left() says so; until then it is the shorter way.
int Engine::start_fetch(const TensorPtr& tensor, std::byte* to, Stream stream) {
  if (!on_host())
    if (const int error = link_->mark(stream, &tensor->to_free); error != 0) return error;
  tensor->to = to;
  ++tensor->fetches;
  tensor->handed_back = !tensor->left_told;
  step_.fetch(*tensor);
  was_asked_for(*tensor);
  ++counts_.fetched;
  counts_.fetched_bytes += tensor->bytes;
  if (tensor->handed_back) ++counts_.handed_back;
  bring(tensor);
  plan_reads();
  return 0;
}

// What goes past host memory comes so, too, but for a direct one that is just being read ahead; and so does
// what finds no room there now.
void Engine::bring(const TensorPtr& tensor) {
  const bool to_memory = !tensor->in_pieces || tensor->drive == Tensor::Drive::reading;
  const bool on_drive =
      tensor->state == Tensor::State::stored && !tensor->memory_filled && !tensor->handed_back && to_memory;
  const bool comes = on_drive && (tensor->drive != Tensor::Drive::idle || start_read(tensor, true));
  tensor->arrival = comes ? Tensor::Arrival::awaiting : Tensor::Arrival::queued;
}

void Engine::bring_in(const TensorPtr& tensor) {
  Lock lock(mutex_);
  if (!tensor->gone && tensor->arrival == Tensor::Arrival::queued) run_arrival(tensor, lock);
}

// By a thread of the crew, or by the one that waits for it.
void Engine::run_arrival(const TensorPtr& arriving, Lock& lock) {
  Tensor& tensor = *arriving;
  tensor.arrival = Tensor::Arrival::running;
  ++tensor.users;
  const int error = carry_in(tensor, lock);
  if (error == EBADMSG) ++counts_.checksum_failures;
  tensor.arrival = error == 0 ? Tensor::Arrival::under_way : Tensor::Arrival::failed;
  tensor.arrival_error = error;
  if (tensor.arriving_piece != nullptr) {
    tensor.arrival = Tensor::Arrival::decoding;
    ++tensor.users;  // until judge()
    verdict_crew_.queue(arriving);
  }
  end_use(tensor);
  changed_.notify_all();
}

int Engine::carry_in(Tensor& tensor, Lock& lock) {
  if (!tensor.handed_back) changed_.wait(lock, [&] { return tensor.state >= Tensor::State::stored; });
  if (tensor.state == Tensor::State::failed) return tensor.error;
  if (!tensor.handed_back && !tensor.memory_filled) return carry_in_through_window(tensor, lock);
  if (!on_host()) return carry_in_by_device(tensor, lock);
  lock.unlock();
  const int error = carry_in_on_host(tensor);
  lock.lock();
  return error;
}

int Engine::carry_in_on_host(Tensor& tensor) {
  if (tensor.handed_back) {
    std::memcpy(tensor.to, tensor.source, tensor.bytes);
    return 0;
  }
  const std::byte* memory = slab_.at(tensor.memory);
  if (tensor.codec != compression::Codec::raw) return carry_frame_in_on_host(tensor, memory);
  if (copy_in_on_host(tensor, memory)) return 0;
  std::memset(tensor.to, poison, tensor.bytes);
  return EBADMSG;
}

int Engine::carry_frame_in_on_host(Tensor& tensor, const std::byte* frame) {
  if (proofs_.hold(tensor, frame)) return decode(tensor, frame);
  std::memset(tensor.to, poison, tensor.bytes);
  return EBADMSG;
}

bool Engine::copy_in_on_host(Tensor& tensor, const std::byte* memory) {
  const std::uint64_t start = os::now_ns();
  const bool intact = proofs_.hold_copy(tensor, memory);
  if (codec_ != nullptr) codec_->moved(HostCodec::Way::memory, false, tensor.bytes, os::now_ns() - start);
  return intact;
}

int Engine::decode(Tensor& tensor, const std::byte* frame) {
  std::uint64_t ns = 0;
  if (!codec_->decode({frame, tensor.stored_bytes}, {tensor.to, tensor.bytes}, &ns)) {
    std::memset(tensor.to, poison, tensor.bytes);
    return EBADMSG;
  }
  const Lock lock(mutex_);
  counts_.decompress_ns += ns;
  return 0;
}

int Engine::carry_in_by_device(Tensor& tensor, Lock& lock) {
  if (tensor.handed_back)
    return link_->copy_across(tensor.to, tensor.source, tensor.bytes, tensor.to_free, tensor.ready,
                              &tensor.arrived);
  if (proofs_.are_to_be_seen(tensor)) {
    lock.unlock();
    const bool intact = proofs_.hold(tensor, slab_.at(tensor.memory));
    lock.lock();
    if (!intact) return EBADMSG;
  }
  if (tensor.direct || tensor.codec != compression::Codec::raw) return carry_frame_by_device(tensor, lock);
  tensor.arrival_begun_ns = os::now_ns();
  return link_->copy_in({&slab_, tensor.memory.offset, tensor.to, tensor.bytes}, tensor.to_free,
                        &tensor.arrived);
}

int Engine::arrive(std::uint64_t id, void* stream) {
  if (!takes(stream)) return EINVAL;
  Lock lock(mutex_);
  const TensorPtr tensor = find(id);
  return tensor == nullptr ? ENOENT : arrive(tensor, static_cast<Stream>(stream), lock);
}

// Another thread may have waited for the same fetch, and begun the next one meanwhile: that the next begins
// says that this one is there, and nothing about the next is this thread's to say.
int Engine::arrive(const TensorPtr& tensor, Stream stream, Lock& lock) {
  if (tensor->to == nullptr) return EINVAL;
  const std::uint64_t start = os::now_ns();
  const std::uint64_t fetch = tensor->fetches;
  const auto is_latest = [&] { return tensor->fetches == fetch; };
  ++tensor->users;
  while (!tensor->gone && is_latest() && is_moving(*tensor)) {
    if (tensor->arrival == Tensor::Arrival::queued)
      run_arrival(tensor, lock);
    else
      changed_.wait(lock);
  }
  int error = tensor->gone ? ENOENT : is_latest() ? tensor->arrival_error : 0;
  if (error == 0 && !on_host()) error = await_arrival(*tensor, stream, lock);
  if (error == 0 && is_latest()) tensor->arrival = Tensor::Arrival::none;
  end_use(*tensor);
  counts_.host_wait_ns += os::now_ns() - start;
  return error;
}

// A GPU's stream waits; on the emulated device, whose work the host does, the host.
int Engine::await_arrival(Tensor& tensor, Stream stream, Lock& lock) {
  if (!host_waits()) return link_->device().wait(stream, tensor.arrived);
  const Event arrived = tensor.arrived;
  const bool is_timed = planner_ != nullptr && is_pending(arrived) && !tensor.handed_back &&
                        tensor.codec == compression::Codec::raw && !tensor.in_pieces;
  const std::uint64_t begun_ns = tensor.arrival_begun_ns;
  lock.unlock();
  const int error = link_->device().synchronize(arrived);
  if (is_timed && error == 0)
    planner_->transferred(StepPlanner::Way::in, tensor.bytes, begun_ns, os::now_ns());
  lock.lock();
  return error;
}

}  // namespace terrace::liballoc::offload
