// Tensors that host memory does not hold as a whole: through a transit extent, piece by piece, straight to
// the drive and back. For a tensor too large to stand beside one that is brought back, and for any that finds
// host memory full of what cannot be dropped.
//
// A piece's copy, sum and transfer run one behind the other, and one tensor at a time has the transit extent:
// the drive is what it waits for most. The sum goes on from piece to piece (stored_sum.h), so it is that of
// the whole. On the way back it is known only once the last piece has arrived; what arrived before is then
// overwritten if it is wrong.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "liballoc/gpu/offload/codec/stored_sum.h"
#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {
namespace {

constexpr std::uint64_t most_transit_bytes = std::uint64_t{8} << 20;
constexpr std::uint64_t transit_share = 16;  // of host memory
constexpr int poison = 0xff;                 // no number, of any floating-point type

}  // namespace

// A multiple of what stored_sum() takes at a time: the sum of pieces is the sum of the whole.
std::uint64_t Engine::transit_bytes() const {
  if (drive_ == nullptr) return 0;
  return std::min(most_transit_bytes,
                  slab_.capacity_bytes() / transit_share / sum_piece_bytes * sum_piece_bytes);
}

// Once host memory is short: from then on a tensor in pieces can always leave and come back.
void Engine::claim_transit() {
  if (drive_ != nullptr && pressed_) make_transit();
}

bool Engine::make_transit() {
  tiers::Extent made{};
  if (transit_.bytes() != 0) return true;
  if (room_for(transit_bytes(), &made) != 0) return false;
  transit_.hold(made);
  return true;
}

bool Engine::may_go_in_pieces(const Tensor& tensor) const {
  return !tensor.in_pieces && transit_.bytes() != 0 && drive_error_ == 0;
}

// 0, EAGAIN: there is no transit extent yet, or what the drive says.
int Engine::room_in_pieces(Tensor& tensor) {
  if (!make_transit()) return EAGAIN;
  tensor.direct = may_go_directly(tensor) && space_on_drive(tensor, direct_bytes(tensor)) == 0;
  return tensor.direct ? 0 : space_on_drive(tensor, whole_blocks(tensor.bytes));
}

// 0, or why it is not to be had: then nobody has it.
int Engine::take_transit(Lock& lock) {
  changed_.wait(lock, [this] { return !transit_busy_; });
  transit_busy_ = true;
  int error = 0;
  while ((error = transit_.hand_out()) == EAGAIN) changed_.wait(lock);
  if (error != 0) leave_transit();
  return error;
}

void Engine::leave_transit() {
  transit_busy_ = false;
  changed_.notify_all();
}

Engine::Part Engine::piece_at(const Tensor& tensor, std::uint64_t offset) const {
  return {offset, std::min(transit_.bytes(), tensor.bytes - offset)};
}

int Engine::carry_out_in_pieces(Tensor& tensor) {
  Lock lock(mutex_);
  std::uint64_t sum = tensor.id;
  int error = take_transit(lock);
  if (error != 0) return error;
  for (std::uint64_t at = 0; error == 0 && at < tensor.bytes; at += transit_.bytes()) {
    const Part piece = piece_at(tensor, at);
    error = piece_to_transit(tensor, piece, &sum, lock);
    if (error == 0) error = piece_by_drive(tensor, piece, tiers::Direction::write, lock);
    if (error == 0 && tensor.gone) error = ECANCELED;
  }
  leave_transit();
  tensor.sum = sum;
  tensor.proof = Tensor::Proof::sum;
  proofs_.count(tensor.bytes);
  tensor.disk_filled = error == 0;
  if (error == 0) ++counts_.in_pieces;
  return error;
}

int Engine::piece_to_transit(Tensor& tensor, const Part& piece, std::uint64_t* sum, Lock& lock) {
  std::byte* transit = slab_.at(transit_.extent());
  int error = 0;
  if (!on_host()) {
    auto* source = const_cast<std::byte*>(tensor.source) + piece.offset;
    error = link_->copy_out({&slab_, transit_.extent().offset, source, piece.bytes}, tensor.ready,
                            &tensor.departed);
  }
  lock.unlock();
  if (on_host()) {
    *sum = copy_and_sum(transit, tensor.source + piece.offset, piece.bytes, *sum);
  } else {
    error = synchronized(tensor.departed, error);
    if (error == 0) *sum = stored_sum(transit, piece.bytes, *sum);
  }
  lock.lock();
  return error;
}

int Engine::carry_in_in_pieces(Tensor& tensor, Lock& lock) {
  std::uint64_t sum = tensor.id;
  std::uint64_t at = 0;
  int error = take_transit(lock);
  if (error != 0) return error;
  for (; error == 0 && at < tensor.bytes; at += transit_.bytes()) {
    const Part piece = piece_at(tensor, at);
    error = piece_by_drive(tensor, piece, tiers::Direction::read, lock);
    if (error == 0) error = piece_from_transit(tensor, piece, &sum, lock);
  }
  proofs_.count(std::min(at, tensor.bytes));
  if (error == 0 && sum != tensor.sum) error = EBADMSG;
  if (error != 0) spoil(tensor, std::min(at, tensor.bytes), lock);
  leave_transit();
  return error;
}

// With `sum` a piece of the tensor, without one whatever is in the transit extent.
int Engine::piece_from_transit(Tensor& tensor, const Part& piece, std::uint64_t* sum, Lock& lock) {
  const std::byte* transit = slab_.at(transit_.extent());
  int error = 0;
  if (!on_host())
    error = link_->copy_in({&slab_, transit_.extent().offset, tensor.to + piece.offset, piece.bytes},
                           tensor.to_free, &tensor.arrived);
  lock.unlock();
  if (on_host())
    std::memcpy(tensor.to + piece.offset, transit, piece.bytes);
  else
    error = synchronized(tensor.arrived, error);
  if (sum != nullptr) *sum = stored_sum(transit, piece.bytes, *sum);
  lock.lock();
  return error;
}

// Nobody must take what has come of it for the tensor.
void Engine::spoil(Tensor& tensor, std::uint64_t bytes, Lock& lock) {
  std::memset(slab_.at(transit_.extent()), poison, transit_.bytes());
  for (std::uint64_t at = 0; at < bytes; at += transit_.bytes())
    piece_from_transit(tensor, piece_at(tensor, at), nullptr, lock);
}

int Engine::synchronized(Event event, int error) {
  if (event == nullptr) return error;
  const int ended = link_->device().synchronize(event);
  return error != 0 ? error : ended;
}

int Engine::piece_by_drive(Tensor& tensor, const Part& piece, tiers::Direction direction, Lock& lock) {
  const bool out = direction == tiers::Direction::write;
  tensor.drive = out ? Tensor::Drive::writing : Tensor::Drive::reading;
  drive_->queue({.tensor = tensor.shared_from_this(),
                 .direction = direction,
                 .urgent = !out,
                 .is_piece = true,
                 .memory = slab_.at(transit_.extent()),
                 .extent = {tensor.disk.offset + piece.offset, whole_blocks(piece.bytes)}});
  changed_.wait(lock, [&tensor] { return tensor.drive == Tensor::Drive::idle; });
  return tensor.piece_error;
}

void Engine::piece_done(const Drive::Job& job, int error) {
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
