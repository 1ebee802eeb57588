// Between the drive and what host memory does not hold: through one extent of the slab, the window.
//
//   way out   a tensor too large to stand beside others, or one that finds host memory full of what cannot be
//             dropped: part by part to the window, summed, and to the drive
//   way back  whatever is on the drive alone and finds no room: part by part to its target, or, a frame on a
//             device, to a piece of the staging (engine_direct.cpp). A frame of a CPU tensor comes as a
//             whole, since the host takes it apart as a whole.
//
// The window is there before a tensor is on the drive alone, and as large as that tensor needs: so whatever
// else fills host memory, it can be brought back. It is made of the memory of the tensor that is dropped, if
// nothing else is free.
//
// A part's copy, sum and transfer run one behind the other, and one tensor at a time has the window: the
// drive is what it waits for most. The sum goes on from part to part (stored_sum.h), so it is that of the
// whole. On the way back it is known only once the last part has arrived; what arrived before is then
// overwritten if it is wrong.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "liballoc/gpu/offload/codec/stored_sum.h"
#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {
namespace {

constexpr std::uint64_t most_window_bytes = std::uint64_t{8} << 20;
constexpr std::uint64_t window_share = 16;  // of host memory
constexpr int poison = 0xff;                // no number, of any floating-point type

}  // namespace

std::uint64_t Engine::usual_window_bytes() const {
  if (drive_ == nullptr) return 0;
  return std::min(most_window_bytes,
                  slab_.capacity_bytes() / window_share / sum_piece_bytes * sum_piece_bytes);
}

// What the way back needs, once host memory does not hold it any more.
std::uint64_t Engine::window_for(const Tensor& tensor) const {
  const bool comes_whole = on_host() && tensor.codec != compression::Codec::raw;
  return comes_whole ? tensor.memory.bytes : std::min(tensor.memory.bytes, usual_window_bytes());
}

// Once host memory is short: from then on a tensor in pieces can always leave and come back.
void Engine::claim_window() {
  if (drive_ != nullptr && pressed_) make_window();
}

bool Engine::make_window() {
  tiers::Extent made{};
  if (window_.bytes() >= usual_window_bytes()) return true;
  if (!window_busy_ && room_for(usual_window_bytes(), &made) == 0) window_.hold(made);
  return has_window();
}

// For any tensor that comes in parts.
bool Engine::has_window() const { return window_.bytes() >= sum_piece_bytes; }

bool Engine::may_go_in_pieces(const Tensor& tensor) const {
  return !tensor.in_pieces && has_window() && drive_error_ == 0;
}

// 0, EAGAIN: there is no window yet, or what the drive says.
int Engine::room_in_pieces(Tensor& tensor) {
  if (!make_window()) return EAGAIN;
  tensor.direct = may_go_directly(tensor) && space_on_drive(tensor, direct_bytes(tensor)) == 0;
  return tensor.direct ? 0 : space_on_drive(tensor, whole_blocks(tensor.bytes));
}

// 0, or why it is not to be had: then nobody has it. The way back waits where what the grant does not allow
// for is in the way: it will be gone.
int Engine::take_window(const Tensor& tensor, bool to_read, Lock& lock) {
  changed_.wait(lock, [this] { return !window_busy_; });
  window_busy_ = true;
  int error = 0;
  while ((error = window_.hand_out()) == EAGAIN || (error == ENOSPC && to_read && !tensor.gone))
    changed_.wait(lock);
  if (error != 0) leave_window();
  return error;
}

void Engine::leave_window() {
  window_busy_ = false;
  changed_.notify_all();
}

// Of so many bytes the part from `offset` on: a multiple of what stored_sum() takes at a time, so that the
// sum of the parts is the sum of the whole.
Engine::Part Engine::part_at(std::uint64_t bytes, std::uint64_t offset) const {
  if (bytes <= window_.bytes()) return {offset, bytes - offset};
  return {offset, std::min(window_.bytes() / sum_piece_bytes * sum_piece_bytes, bytes - offset)};
}

int Engine::carry_out_in_pieces(Tensor& tensor) {
  Lock lock(mutex_);
  std::uint64_t sum = tensor.id;
  int error = take_window(tensor, false, lock);
  if (error != 0) return error;
  for (std::uint64_t at = 0; error == 0 && at < tensor.bytes;) {
    const Part part = part_at(tensor.bytes, at);
    error = part_to_window(tensor, part, &sum, lock);
    if (error == 0) error = part_by_drive(tensor, part, tiers::Direction::write, lock);
    if (error == 0 && tensor.gone) error = ECANCELED;
    at += part.bytes;
  }
  leave_window();
  tensor.sum = sum;
  tensor.proof = Tensor::Proof::sum;
  proofs_.count(tensor.bytes);
  tensor.disk_filled = error == 0;
  if (error == 0) ++counts_.in_pieces;
  return error;
}

int Engine::part_to_window(Tensor& tensor, const Part& part, std::uint64_t* sum, Lock& lock) {
  std::byte* window = slab_.at(window_.extent());
  int error = 0;
  if (!on_host()) {
    auto* source = const_cast<std::byte*>(tensor.source) + part.offset;
    error = link_->copy_out({&slab_, window_.extent().offset, source, part.bytes}, tensor.ready,
                            &tensor.departed);
  }
  lock.unlock();
  if (on_host()) {
    *sum = copy_and_sum(window, tensor.source + part.offset, part.bytes, *sum);
  } else {
    error = synchronized(tensor.departed, error);
    if (error == 0) *sum = stored_sum(window, part.bytes, *sum);
  }
  lock.lock();
  return error;
}

int Engine::carry_in_through_window(Tensor& tensor, Lock& lock) {
  const bool is_frame = tensor.codec != compression::Codec::raw;
  if (tensor.direct || (is_frame && !on_host())) return carry_in_staged(tensor, lock);
  return is_frame ? carry_in_frame(tensor, lock) : carry_in_in_pieces(tensor, lock);
}

int Engine::carry_in_in_pieces(Tensor& tensor, Lock& lock) {
  std::uint64_t sum = tensor.id;
  std::uint64_t at = 0;
  int error = take_window(tensor, true, lock);
  if (error != 0) return error;
  while (error == 0 && at < tensor.bytes) {
    const Part part = part_at(tensor.bytes, at);
    error = part_by_drive(tensor, part, tiers::Direction::read, lock);
    if (error == 0) error = part_from_window(tensor, part, &sum, lock);
    at += part.bytes;
  }
  proofs_.count(at);
  if (error == 0 && sum != tensor.sum) error = EBADMSG;
  if (error != 0) spoil(tensor, at, lock);
  leave_window();
  return error;
}

int Engine::carry_in_frame(Tensor& tensor, Lock& lock) {
  int error = take_window(tensor, true, lock);
  if (error != 0) return error;
  error = part_by_drive(tensor, {0, tensor.stored_bytes}, tiers::Direction::read, lock);
  if (error == 0) {
    lock.unlock();
    error = carry_frame_in_on_host(tensor, slab_.at(window_.extent()));
    lock.lock();
  }
  leave_window();
  return error;
}

// With `sum` a part of the tensor, without one whatever is in the window.
int Engine::part_from_window(Tensor& tensor, const Part& part, std::uint64_t* sum, Lock& lock) {
  const std::byte* window = slab_.at(window_.extent());
  int error = 0;
  if (!on_host())
    error = link_->copy_in({&slab_, window_.extent().offset, tensor.to + part.offset, part.bytes},
                           tensor.to_free, &tensor.arrived);
  lock.unlock();
  if (on_host())
    std::memcpy(tensor.to + part.offset, window, part.bytes);
  else
    error = synchronized(tensor.arrived, error);
  if (sum != nullptr) *sum = stored_sum(window, part.bytes, *sum);
  lock.lock();
  return error;
}

// Nobody must take what has come of it for the tensor.
void Engine::spoil(Tensor& tensor, std::uint64_t bytes, Lock& lock) {
  std::memset(slab_.at(window_.extent()), poison, window_.bytes());
  for (std::uint64_t at = 0; at < bytes;) {
    const Part part = part_at(tensor.bytes, at);
    part_from_window(tensor, part, nullptr, lock);
    at += part.bytes;
  }
}

int Engine::synchronized(Event event, int error) {
  if (event == nullptr) return error;
  const int ended = link_->device().synchronize(event);
  return error != 0 ? error : ended;
}

int Engine::part_by_drive(Tensor& tensor, const Part& part, tiers::Direction direction, Lock& lock) {
  const bool out = direction == tiers::Direction::write;
  tensor.drive = out ? Tensor::Drive::writing : Tensor::Drive::reading;
  drive_->queue({.tensor = tensor.shared_from_this(),
                 .direction = direction,
                 .urgent = !out,
                 .is_part = true,
                 .memory = slab_.at(window_.extent()),
                 .extent = {tensor.disk.offset + part.offset, whole_blocks(part.bytes)}});
  changed_.wait(lock, [&tensor] { return tensor.drive == Tensor::Drive::idle; });
  return tensor.piece_error;
}

void Engine::part_done(const Drive::Job& job, int error) {
  Tensor& tensor = *job.tensor;
  const bool out = job.direction == tiers::Direction::write;
  tensor.drive = Tensor::Drive::idle;
  tensor.piece_error = error;
  if (error != 0)
    ++counts_.io_errors;
  else
    (out ? counts_.nvme_written_bytes : counts_.nvme_read_bytes) += job.extent.bytes;
  if (out) was_submitted(tensor, job.submitted_bytes);
  if (out && error != 0) drive_error_ = error;
  changed_.notify_all();
}

}  // namespace terrace::liballoc::offload
