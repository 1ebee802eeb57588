#include "liballoc/gpu/offload/engine/fetches.h"

#include <cerrno>

#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {

int Fetches::fetch(const TensorPtr& tensor, void* to, Stream stream, Lock& lock) {
  const bool begins = tensor->arrival == Tensor::Arrival::none;
  const int error = begin(tensor, to, stream);
  if (error != 0 || !begins || tensor->arrival != Tensor::Arrival::queued) return error;
  if (common_->is_brief(*tensor) && (tensor->handed_back || tensor->memory_filled))
    run(tensor, lock);
  else
    common_->executor.queue(Stage::in, tensor);
  return 0;
}

int Fetches::fetch_arrive(const TensorPtr& tensor, void* to, Stream stream, Lock& lock) {
  const int error = begin(tensor, to, stream);
  return error != 0 ? error : arrive(tensor, stream, lock);
}

// The source is the caller's again from the moment that left() says so; until then it is the shorter way.
int Fetches::begin(const TensorPtr& tensor, void* to, Stream stream) {
  if (tensor->state == Tensor::State::failed) return tensor->error;
  if (tensor->arrival == Tensor::Arrival::failed) return tensor->arrival_error;
  if (tensor->arrival != Tensor::Arrival::none) return tensor->to == to ? 0 : EALREADY;
  if (!common_->on_host())
    if (const int error = common_->link->mark(stream, &tensor->to_free); error != 0) return error;
  tensor->to = static_cast<std::byte*>(to);
  ++tensor->fetches;
  tensor->handed_back = !tensor->left_told;
  common_->step.fetch(*tensor);
  host_->was_asked_for(*tensor);
  ++common_->counts.fetched;
  common_->counts.fetched_bytes += tensor->bytes;
  if (tensor->handed_back) ++common_->counts.handed_back;
  bring(tensor);
  traffic_->read_ahead();
  return 0;
}

// What goes past host memory comes so, too, but for a direct one that is just being read ahead; and so does
// what finds no room there now.
void Fetches::bring(const TensorPtr& tensor) {
  const bool is_read = tensor->drive == Tensor::Drive::reading;
  const bool on_drive = tensor->state == Tensor::State::stored && !tensor->memory_filled &&
                        !tensor->handed_back && (!tensor->in_pieces || is_read);
  const bool comes = on_drive && (is_read || traffic_->start_read(tensor));
  tensor->arrival = comes ? Tensor::Arrival::awaiting : Tensor::Arrival::queued;
}

void Fetches::bring_in(const TensorPtr& tensor, Lock& lock) {
  if (!tensor->gone && tensor->arrival == Tensor::Arrival::queued) run(tensor, lock);
}

// By a thread of the crew, or by the one that waits for it.
void Fetches::run(const TensorPtr& arriving, Lock& lock) {
  Tensor& tensor = *arriving;
  tensor.arrival = Tensor::Arrival::running;
  ++tensor.users;
  const int error = carry_in(tensor, lock);
  if (error == EBADMSG) ++common_->counts.checksum_failures;
  tensor.arrival = error == 0 ? Tensor::Arrival::under_way : Tensor::Arrival::failed;
  tensor.arrival_error = error;
  if (tensor.arriving_piece != nullptr) {
    tensor.arrival = Tensor::Arrival::decoding;
    ++tensor.users;  // until DeviceFrames::judge()
    common_->executor.queue(Stage::verdict, arriving);
  }
  uses_->end(tensor);
  common_->changed.notify_all();
}

// What is handed back comes from its source, whatever becomes of its way out.
int Fetches::carry_in(Tensor& tensor, Lock& lock) {
  if (!tensor.handed_back) {
    common_->changed.wait(lock, [&] { return tensor.state >= Tensor::State::stored; });
    if (tensor.state == Tensor::State::failed) return tensor.error;
  }
  return common_->on_host() ? carry_in_on_host(tensor, lock) : carry_in_by_device(tensor, lock);
}

int Fetches::carry_in_on_host(Tensor& tensor, Lock& lock) {
  if (tensor.handed_back || tensor.memory_filled) {
    lock.unlock();
    const int error = copies_->carry_in(tensor);
    lock.lock();
    return error;
  }
  if (tensor.is_raw()) return windowed_->carry_in(tensor, tensor.to, tensor.to_free, lock);
  const auto take = [&](const std::byte* frame) { return copies_->carry_in_frame(tensor, frame); };
  return windowed_->carry_in_frame(tensor, take, lock);
}

int Fetches::carry_in_by_device(Tensor& tensor, Lock& lock) {
  DeviceLink& link = *common_->link;
  if (tensor.handed_back)
    return link.copy_across(tensor.to, tensor.source, tensor.bytes, tensor.to_free, tensor.ready,
                            &tensor.arrived);
  if (tensor.memory_filled && common_->proofs.are_to_be_seen(tensor)) {
    lock.unlock();
    const bool is_intact = common_->proofs.hold(tensor, host_->at(tensor));
    lock.lock();
    if (!is_intact) return EBADMSG;
  }
  if (tensor.direct || !tensor.is_raw()) return frames_->carry_in(tensor, lock);
  if (!tensor.memory_filled) return windowed_->carry_in(tensor, tensor.to, tensor.to_free, lock);
  tensor.arrival_begun_ns = os::now_ns();
  return link.copy_in({&host_->slab(), tensor.memory.offset, tensor.to, tensor.bytes}, tensor.to_free,
                      &tensor.arrived);
}

// Another thread may have waited for the same fetch, and begun the next one meanwhile: that the next begins
// says that this one is there, and nothing about the next is this thread's to say.
int Fetches::arrive(const TensorPtr& tensor, Stream stream, Lock& lock) {
  if (tensor->to == nullptr) return EINVAL;
  const std::uint64_t start = os::now_ns();
  const std::uint64_t fetch = tensor->fetches;
  const auto is_latest = [&] { return tensor->fetches == fetch; };
  ++tensor->users;
  while (!tensor->gone && is_latest() && tensor->is_moving()) {
    if (tensor->arrival == Tensor::Arrival::queued)
      run(tensor, lock);
    else
      common_->changed.wait(lock);
  }
  int error = tensor->gone ? ENOENT : is_latest() ? tensor->arrival_error : 0;
  if (error == 0 && !common_->on_host()) error = await_arrival(*tensor, stream, lock);
  if (error == 0 && is_latest()) tensor->arrival = Tensor::Arrival::none;
  uses_->end(*tensor);
  common_->counts.host_wait_ns += os::now_ns() - start;
  return error;
}

// A GPU's stream waits; on the emulated device, whose work the host does, the host.
int Fetches::await_arrival(Tensor& tensor, Stream stream, Lock& lock) {
  if (!common_->host_waits()) return common_->device().wait(stream, tensor.arrived);
  const Event arrived = tensor.arrived;
  const bool is_timed = common_->planner != nullptr && common_->is_pending(arrived) && !tensor.handed_back &&
                        tensor.is_raw() && !tensor.in_pieces;
  const std::uint64_t begun_ns = tensor.arrival_begun_ns;
  lock.unlock();
  const int error = common_->device().synchronize(arrived);
  if (is_timed && error == 0)
    common_->planner->transferred(StepPlanner::Way::in, tensor.bytes, begun_ns, os::now_ns());
  lock.lock();
  return error;
}

}  // namespace terrace::liballoc::offload
