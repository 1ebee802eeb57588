#include "liballoc/gpu/offload/codec/staging.h"

#include <algorithm>

namespace terrace::liballoc::offload {
namespace {

constexpr std::uint64_t usual_share = 32;
constexpr std::uint64_t usual_most_bytes = std::uint64_t{256} << 20;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Staging::~Staging() { unmap(); }

void Staging::open(tiers::gpu::Device* device, std::uint64_t bytes) {
  device_ = device;
  if (bytes == 0) bytes = std::min(device->memory().total_bytes / usual_share, usual_most_bytes);
  capacity_bytes_ = round_up(std::max<std::uint64_t>(bytes, 1), device->frame_bytes());
  for (Piece& piece : pieces_) unused_.push_back(&piece);
}

int Staging::map_frames() {
  if (const int error = device_->reserve_address(capacity_bytes_, &base_); error != 0) return error;
  for (std::uint64_t made = 0; made < capacity_bytes_; made += device_->frame_bytes()) {
    tiers::gpu::Frame frame;
    if (const int error = device_->create_frame(tiers::gpu::Place::device, &frame); error != 0) return error;
    frames_.push_back(frame);
  }
  const int error = device_->map(base_, frames_);
  if (error == 0) mapped_bytes_ = capacity_bytes_;
  return error;
}

// Once: what the device had no memory for then it is not asked for again.
bool Staging::map() {
  if (std::exchange(tried_to_map_, true)) return base_ != nullptr;
  if (map_frames() != 0) {
    unmap();
    return false;
  }
  free_.give(0, capacity_bytes_);
  return true;
}

void Staging::unmap() {
  if (mapped_bytes_ != 0) device_->unmap(base_, std::exchange(mapped_bytes_, 0));
  for (const tiers::gpu::Frame frame : frames_) device_->destroy_frame(frame);
  frames_.clear();
  if (base_ != nullptr) device_->release_address(std::exchange(base_, nullptr), capacity_bytes_);
}

Piece* Staging::take(std::uint64_t bytes) {
  const std::uint64_t rounded = round_up(bytes, unit_bytes);
  std::unique_lock lock(mutex_);
  if (!map()) return nullptr;
  const std::uint64_t mine = next_turn_++;
  std::uint64_t offset = 0;
  changed_.wait(lock, [&] { return turn_ == mine && !unused_.empty() && free_.take(rounded, &offset); });
  ++turn_;
  changed_.notify_all();
  Piece* piece = unused_.back();
  unused_.pop_back();
  piece->extent = {offset, rounded};
  return piece;
}

bool Staging::is_waited_for() {
  const std::lock_guard lock(mutex_);
  return next_turn_ != turn_;
}

void Staging::give_back() {
  const std::lock_guard lock(mutex_);
  if (base_ == nullptr || unused_.size() != most_pieces || next_turn_ != turn_) return;
  free_.cut(0, capacity_bytes_);
  unmap();
  tried_to_map_ = false;
}

void Staging::give(Piece* piece) {
  const std::lock_guard lock(mutex_);
  free_.give(piece->extent.offset, piece->extent.bytes);
  unused_.push_back(piece);
  changed_.notify_all();
}

}  // namespace terrace::liballoc::offload
