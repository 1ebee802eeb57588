#include "liballoc/gpu/offload/engine/stores.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {
namespace {

TensorPtr make_tensor(const terrace_offload_tensor& from) {
  auto tensor = std::make_shared<Tensor>();
  tensor->source = static_cast<const std::byte*>(from.data);
  tensor->bytes = from.bytes;
  tensor->element = static_cast<compression::ElementType>(from.element);
  tensor->site = from.site;
  return tensor;
}

}  // namespace

// With a drive in the order of the stores; what waits for memory to grow may be overtaken.
int Stores::store(const terrace_offload_tensor& from, Stream stream, std::uint64_t* id, bool* left) {
  const TensorPtr tensor = make_tensor(from);
  Lock lock(common_->mutex);
  frames_->plan(*tensor);
  host_->collect_retired();
  int error = waiting_.empty() || !drive_->is_open() ? copies_->reserve(*tensor) : ENOSPC;
  const bool waits = error == ENOSPC;
  if (waits) error = may_wait(*tensor);
  if (error != 0) return error;
  if (waits) tensor->state = Tensor::State::waiting;
  error = adopt(tensor, stream);
  if (error == 0 && waits) error = queue_for_room(tensor);
  if (error != 0) {
    drop_refused(*tensor, stream, lock);
    return error;
  }
  *id = tensor->id;
  if (!waits && is_finished_at_once(*tensor))
    finish(tensor, lock);
  else if (!waits)
    queue_to_leave(tensor);
  if (left != nullptr) *left = !waits && tell_left(*tensor);
  return 0;
}

// What may throw comes first.
int Stores::adopt(const TensorPtr& tensor, Stream stream) {
  common_->step.enter(tensor);
  common_->live.emplace(tensor->id, tensor);
  if (const int error = begin(*tensor, stream); error != 0) {
    common_->live.erase(tensor->id);
    common_->step.withdraw();
    return error;
  }
  common_->step.confirm();
  ++common_->counts.stored;
  common_->counts.stored_bytes += tensor->bytes;
  common_->counts.live_bytes += tensor->bytes;
  return 0;
}

// A copy out that was refused half-way is still under way: the source is the caller's behind it, as after
// release(), and the memory the slab's.
void Stores::drop_refused(Tensor& tensor, Stream stream, Lock& lock) {
  if (common_->host_waits())
    uses_->synchronize(tensor, lock);
  else
    uses_->order_behind(tensor, stream);
  uses_->free(tensor);
}

// As if it had never been, but for its number.
void Stores::disown(const TensorPtr& tensor) {
  common_->live.erase(tensor->id);
  common_->step.leave(*tensor);
  tensor->gone = true;
  --common_->counts.stored;
  common_->counts.stored_bytes -= tensor->bytes;
  common_->counts.live_bytes -= tensor->bytes;
}

int Stores::begin(Tensor& tensor, Stream stream) {
  tensor.stored_bytes = tensor.bytes;
  if (!common_->on_host())
    if (const int error = common_->link->mark(stream, &tensor.ready); error != 0) return error;
  return tensor.state == Tensor::State::waiting ? 0 : start_copy(tensor);
}

int Stores::start_copy(Tensor& tensor) {
  const bool by_hand = common_->by_hand(tensor);
  tensor.state = Tensor::State::leaving;
  tensor.pressed = host_->is_pressed();
  if (!by_hand) ++tensor.users;  // until finish(): the device writes to the slab
  if (!by_hand && !tensor.direct && tensor.codec_to_try == compression::Codec::raw)
    if (const int error = queue_copy(tensor); error != 0) {
      --tensor.users;
      return error;
    }
  ++leaving_;
  return 0;
}

// A Move goes either way; this one only reads the source.
int Stores::queue_copy(Tensor& tensor) {
  auto* source = const_cast<std::byte*>(tensor.source);
  const DeviceLink::Move move{&host_->slab(), tensor.memory.offset, source, tensor.bytes};
  return common_->link->copy_out(move, tensor.ready, &tensor.departed);
}

void Stores::queue_to_leave(const TensorPtr& tensor) {
  const bool as_it_is =
      !tensor->direct && (tensor->in_pieces || tensor->codec_to_try == compression::Codec::raw);
  common_->executor.queue(as_it_is ? Stage::out : Stage::frame, tensor);
}

bool Stores::is_finished_at_once(const Tensor& tensor) const {
  return common_->is_brief(tensor) && (common_->on_host() || !common_->is_pending(tensor.departed));
}

void Stores::finish(const TensorPtr& tensor, Lock& lock) {
  const bool by_hand = common_->by_hand(*tensor);
  if (!by_hand || !tensor->gone) {
    if (by_hand) ++tensor->users;
    tensor->source_in_use = by_hand;
    lock.unlock();
    const int error = carry_out(*tensor);
    lock.lock();
    tensor->source_in_use = false;
    if (error != 0) drive_->charge(*tensor, 0);
    tensor->error = error;
    tensor->memory_filled = error == 0 && !tensor->in_pieces;
    tensor->state = error == 0 ? Tensor::State::stored : Tensor::State::failed;
    if (!tensor->in_pieces) host_->slab().shrink(&tensor->memory, tensor->stored_bytes);
    uses_->end(*tensor);
  }
  --leaving_;
  common_->changed.notify_all();
  common_->stir();
}

int Stores::carry_out(Tensor& tensor) {
  if (tensor.direct) return frames_->end_direct_store(tensor);
  if (tensor.in_pieces) return windowed_->carry_out(tensor);
  return common_->on_host() ? copies_->carry_out(tensor) : carry_out_by_device(tensor);
}

int Stores::carry_out_by_device(Tensor& tensor) {
  const int error = departed(tensor);
  frames_->give_back_piece(tensor);
  if (error != 0 || tensor.departed == nullptr) return error;  // gone before it was copied
  common_->proofs.take(tensor, host_->at(tensor));
  return 0;
}

// Once its copy out has passed. How long that took begins when the stream had made the source.
int Stores::departed(Tensor& tensor) {
  std::uint64_t begun_ns = 0;
  const bool is_timed = common_->planner != nullptr && tensor.codec_to_try == compression::Codec::raw &&
                        tensor.error == 0 && common_->device().synchronize(tensor.ready) == 0;
  if (is_timed) begun_ns = os::now_ns();
  // An error: of an attempt to make a frame.
  const int error = common_->synchronized(tensor.departed, tensor.error);
  if (is_timed && error == 0)
    common_->planner->transferred(StepPlanner::Way::out, tensor.bytes, begun_ns, os::now_ns());
  return error;
}

// A fetch still reads the source.
bool Stores::is_being_handed_back(const Tensor& tensor) const {
  return tensor.handed_back && (tensor.is_moving() || common_->is_pending(tensor.arrived));
}

// The copy out has passed, and so has one that handed the source back. Its crew may not have seen it yet.
bool Stores::source_is_free(const Tensor& tensor) const {
  if (is_being_handed_back(tensor)) return false;
  if (tensor.state == Tensor::State::stored) return true;
  return !common_->by_hand(tensor) && tensor.state == Tensor::State::leaving && tensor.departed != nullptr &&
         !common_->is_pending(tensor.departed);
}

bool Stores::tell_left(Tensor& tensor) {
  tensor.left_told = tensor.left_told || source_is_free(tensor);
  return tensor.left_told;
}

// The caller hears of it once nobody reads the source, which is the only copy and the caller's again.
bool Stores::has_failed(const Tensor& tensor) const {
  return tensor.state == Tensor::State::failed && !is_being_handed_back(tensor);
}

int Stores::left(Tensor& tensor, bool* out) {
  if (!waiting_.empty() && host_->has_retired()) common_->stir();
  if (has_failed(tensor)) return tensor.error;
  *out = tell_left(tensor);
  return 0;
}

// What was handed back is copied from the source, too.
int Stores::leave(Tensor& tensor, Stream stream, bool* out, Lock& lock) {
  if (!waiting_.empty() && host_->has_retired()) common_->stir();
  const bool host_waits = common_->host_waits();
  if (host_waits) wait_until_left(tensor, lock);
  if (tensor.gone) return ENOENT;
  if (has_failed(tensor)) return tensor.error;
  const bool has_left = tell_left(tensor);
  if (!has_left && !host_waits && has_copy_queued(tensor) && !(tensor.handed_back && tensor.is_moving())) {
    if (const int error = uses_->order_behind(tensor, stream); error != 0) return error;
    tensor.left_told = true;
  }
  *out = tensor.left_told;
  return 0;
}

// What waits for room, or goes in pieces, may take as long as a drive does: not for that.
void Stores::wait_until_left(Tensor& tensor, Lock& lock) {
  const std::uint64_t start = os::now_ns();
  ++tensor.users;
  common_->changed.wait(
      lock, [&] { return tensor.gone || tensor.in_pieces || tensor.state != Tensor::State::leaving; });
  uses_->end(tensor);
  common_->counts.host_wait_ns += os::now_ns() - start;
}

// Of the whole tensor, and by the device. A tensor whose frame nobody has begun to make goes as it is: frames
// are made when the device gets there (device_frames.h), which may be long after the host wants the memory.
bool Stores::has_copy_queued(Tensor& tensor) {
  if (tensor.state != Tensor::State::leaving || common_->by_hand(tensor) || tensor.direct ||
      tensor.error != 0)
    return false;
  if (tensor.departed == nullptr && tensor.coded == nullptr) tensor.error = queue_copy(tensor);
  return tensor.departed != nullptr && tensor.error == 0;
}

// Whether a store may count on room to come; if not, why.
int Stores::may_wait(Tensor& tensor) {
  if (host_->keeper().may_grow_aside(host_->awaited_bytes() + tensor.bytes)) return 0;
  host_->demand().went_without(tensor.bytes, os::now_ns());
  if (!drive_->is_open())
    return uses_->is_memory_due() || host_->may_be_granted(host_->awaited_bytes() + tensor.bytes)
               ? 0
               : host_->error();
  if (const int error = drive_->may_take(tensor.bytes); error != 0) return error;
  // One that takes more than half would drive out all others, and its frame would not fit beside it.
  const std::uint64_t room = host_->slab().limit_bytes();
  tensor.in_pieces = tensor.bytes > (room - std::min(room, host_->window().usual_bytes())) / 2;
  return 0;
}

int Stores::queue_for_room(const TensorPtr& tensor) {
  waiting_.push_back(tensor);
  host_->await(tensor->bytes);
  common_->stir();
  if (tensor->state != Tensor::State::failed) return 0;
  disown(tensor);
  return tensor->error;
}

void Stores::serve_waiting() {
  if (drive_->is_open() && host_->is_pressed()) host_->make_window();
  while (!waiting_.empty()) {
    const TensorPtr tensor = waiting_.front();
    if (!settle(tensor)) return;
    host_->await_no_longer(tensor->bytes);
    waiting_.pop_front();
  }
}

std::uint64_t Stores::wanted_growth() const {
  for (const TensorPtr& tensor : waiting_)
    if (!tensor->gone) return host_->keeper().may_grow_aside(wanted_room(*tensor)) ? wanted_room(*tensor) : 0;
  return 0;
}

std::uint64_t Stores::wanted_room(const Tensor& tensor) const {
  return tensor.in_pieces ? host_->window().usual_bytes() : tensor.bytes;
}

// True: it waits no longer.
bool Stores::settle(const TensorPtr& tensor) {
  if (tensor->gone) return true;
  int error = serve(tensor);
  int refusal = 0;
  if (error == EAGAIN && prefers_direct(*tensor)) {
    host_->was_short();
    tensor->in_pieces = true;
    error = serve(tensor);
  }
  if (error == EAGAIN && room_may_come(*tensor, &refusal)) return false;
  if (error == EAGAIN && refusal == 0 && may_go_in_pieces(*tensor)) {
    tensor->in_pieces = true;
    error = serve(tensor);
  }
  if (error == 0) return true;
  tensor->state = Tensor::State::failed;
  tensor->error = error != EAGAIN ? error : refusal != 0 ? refusal : host_->error();
  common_->changed.notify_all();
  return true;
}

// 0, EAGAIN: there is no room yet, or why it will not be stored.
int Stores::serve(const TensorPtr& tensor) {
  int error = 0;
  if (tensor->in_pieces)
    error = room_in_pieces(*tensor);
  else if (copies_->reserve(*tensor) != 0)
    error = EAGAIN;
  if (error == 0) error = start_copy(*tensor);
  if (error == 0) queue_to_leave(tensor);
  return error;
}

// Begins to write as much as is needed. False when nothing is on its way; *refusal: why nothing is written.
bool Stores::room_may_come(const Tensor& tensor, int* refusal) {
  const std::uint64_t bytes = wanted_room(tensor);
  if (host_->slab().is_growing() || host_->keeper().may_grow_aside(bytes)) return true;
  if (drive_->is_open()) {
    host_->was_short();
    *refusal = traffic_->make_room(bytes);
  } else if (host_->may_be_granted(bytes)) {
    return true;
  }
  return traffic_->is_writing() || leaving_ != 0 || uses_->is_memory_due();
}

bool Stores::may_go_in_pieces(const Tensor& tensor) const {
  return drive_->is_open() && !tensor.in_pieces && host_->window().is_usable() && drive_->error() == 0;
}

// Instead of waiting for others to be written.
bool Stores::prefers_direct(const Tensor& tensor) const {
  return frames_->may_go_directly(tensor) && may_go_in_pieces(tensor) && !host_->slab().is_growing() &&
         !host_->keeper().may_grow_aside(tensor.bytes);
}

// 0, EAGAIN: there is no window yet, or what the drive says.
int Stores::room_in_pieces(Tensor& tensor) {
  if (!host_->make_window()) return EAGAIN;
  tensor.direct =
      frames_->may_go_directly(tensor) && drive_->reserve(tensor, DeviceFrames::direct_bytes(tensor)) == 0;
  return tensor.direct ? 0 : drive_->reserve(tensor, whole_blocks(tensor.bytes));
}

}  // namespace terrace::liballoc::offload
