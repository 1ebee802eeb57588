// Tensors that host memory does not hold, past it: a kernel makes a frame in a piece of the staging, and
// GPUDirect Storage moves it between the piece and the drive (direct_path.h).
//
//   frame crew   await ready ─ take a piece ─ kernel ─ await it ─ cuFile writes the frame   ──► out crew
//   in crew      take a piece ─ cuFile reads the frame ─ kernel   ──► verdict crew
//                               └─ if it fails: the drive reads it, through the window
//
// Nobody on the host sees the bytes, so none sums them: the frame has sums of its blocks (docs/formats/
// frame.md), raw ones too, made and verified by the kernels. An older frame, where cuFile lost a write, has
// another sum in its header than the tensor remembers.
//
// Such a tensor is one that goes in pieces (engine_window.cpp) and has a shorter way. It has the place for
// that as well, on the drive and in the window: when cuFile refuses it, its pieces go through the host; when
// cuFile does not bring the frame back, or not as it was, the same extent is read through the window, as any
// frame is that host memory has no room for. It is read ahead as others are, into host memory
// (engine_drive.cpp): what lies there does not go directly.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "compression/frame.h"
#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {

// Chosen where it pays, and said in path() where not. The frames need kernels, also where nothing is
// compressed.
void Engine::try_direct(const Settings& settings) {
  if (drive_ == nullptr || on_host() || link_->device().kind() != tiers::gpu::Kind::cuda) return;
  std::string reason;
  if (open_direct(settings, &reason) == 0)
    path_ += ", GPUDirect Storage to " + settings.nvme_directory;
  else
    path_ += ", without GPUDirect Storage: " + reason;
}

int Engine::open_direct(const Settings& settings, std::string* reason) {
  auto direct = std::make_unique<DirectPath>();
  if (const int error = direct->open(&link_->device(), drive_.get(), reason); error != 0) return error;
  if (const int error = writes_.take(DirectPath::probe_writes_bytes); error != 0) {
    *reason = "the drive's endurance budget has no room for a probe";
    return error;
  }
  writes_.submitted(DirectPath::probe_writes_bytes);
  if (const int error = direct->prove(reason); error != 0) return error;
  if (device_codec_ == nullptr) {
    auto codec = std::make_unique<DeviceCodec>();
    if (const int error = codec->open(link_.get(), &slab_, settings, reason); error != 0) return error;
    device_codec_ = std::move(codec);
  }
  direct_ = std::move(direct);
  return 0;
}

bool Engine::may_go_directly(const Tensor& tensor) const {
  return direct_ != nullptr && device_codec_->holds(tensor);
}

// Instead of waiting for others to be written.
bool Engine::prefers_direct(const Tensor& tensor) const {
  return may_go_directly(tensor) && may_go_in_pieces(tensor) && !slab_.is_growing() &&
         !keeper_.may_grow_aside(tensor.bytes);
}

std::uint64_t Engine::direct_bytes(const Tensor& tensor) {
  return whole_blocks(compression::frame_bound(tensor.bytes));
}

// By a thread of the frame crew, behind run_encoder().
int Engine::write_directly(Tensor& tensor) {
  Piece* piece = std::exchange(tensor.leaving_piece, nullptr);
  if (piece == nullptr) return ENOMEM;
  const DeviceCodec::Made made = device_codec_->made(tensor, *piece);
  const tiers::Extent extent{tensor.disk.offset, whole_blocks(made.bytes)};
  const std::uint64_t begun_ns = os::now_ns();
  int error = made.bytes == 0 ? EIO : direct_->write(device_codec_->frame(*piece), extent);
  std::uint64_t sum = 0;
  if (error == 0) error = frame_sum(*piece, &sum);
  device_codec_->give(piece);
  if (error == 0) device_codec_->crossed_drive(extent.bytes, os::now_ns() - begun_ns);
  const Lock lock(mutex_);
  counts_.compress_ns += made.ns;
  was_submitted(tensor, extent.bytes);
  if (error != 0) {
    ++counts_.io_errors;
    return error;
  }
  charge(tensor, 0);  // what the frame did not need
  drive_->shrink(&tensor.disk, extent.bytes);
  counts_.nvme_written_bytes += extent.bytes;
  counts_.direct_bytes += extent.bytes;
  if (tensor.codec_to_try != compression::Codec::raw) {
    counts_.compressed_bytes += tensor.bytes;
    counts_.frame_bytes += made.bytes;
  }
  tensor.codec = tensor.codec_to_try;
  tensor.stored_bytes = made.bytes;
  tensor.sum = sum;
  tensor.proof = Tensor::Proof::header;
  tensor.disk_filled = true;
  return 0;
}

// By a thread of the out crew. The source is still whole: what cuFile refused goes in pieces, and is written
// once more.
int Engine::end_direct_store(Tensor& tensor) {
  {
    const Lock lock(mutex_);
    if (tensor.error == 0) return 0;
    if (tensor.gone) return ECANCELED;
    tensor.direct = false;
    tensor.source_in_use = true;
    drive_->shrink(&tensor.disk, whole_blocks(tensor.bytes));
    if (const int error = charge(tensor, whole_blocks(tensor.bytes)); error != 0) return error;
  }
  return carry_out_in_pieces(tensor);
}

// 0: the rest is in the device's stream, and judge()'s.
int Engine::carry_in_staged(Tensor& tensor, Lock& lock) {
  lock.unlock();
  Piece* piece = device_codec_->take(tensor);
  int error = piece == nullptr ? ENOMEM : bring_frame(tensor, *piece);
  lock.lock();
  if (error == 0) error = device_codec_->decode_staged(tensor, *piece, &tensor.arrived);
  if (error == 0) {
    tensor.arriving_piece = piece;
  } else if (piece != nullptr) {
    lock.unlock();
    device_codec_->abandon(piece);
    lock.lock();
  }
  return error;
}

// What cuFile brought, or failed to bring, says little about what the drive has: the host looks as well.
int Engine::bring_frame(Tensor& tensor, const Piece& piece) {
  if (comes_by_cufile(tensor)) {
    if (read_directly(tensor, piece) == 0) return 0;
    const Lock lock(mutex_);
    give_up_cufile(tensor);
  }
  return read_through_window(tensor, piece);
}

int Engine::read_directly(const Tensor& tensor, const Piece& piece) {
  const tiers::Extent extent{tensor.disk.offset, whole_blocks(tensor.stored_bytes)};
  const std::uint64_t begun_ns = os::now_ns();
  if (const int error = direct_->read(device_codec_->frame(piece), extent); error != 0) return error;
  device_codec_->crossed_drive(extent.bytes, os::now_ns() - begun_ns);
  {
    const Lock lock(mutex_);
    counts_.nvme_read_bytes += extent.bytes;
    counts_.direct_bytes += extent.bytes;
  }
  return check_frame(tensor, piece);
}

// Part by part to where cuFile would have put it.
int Engine::read_through_window(Tensor& tensor, const Piece& piece) {
  Lock lock(mutex_);
  std::uint64_t sum = tensor.id;
  int error = take_window(tensor, true, lock);
  if (error != 0) return error;
  for (std::uint64_t at = 0; error == 0 && at < tensor.stored_bytes;) {
    const Part part = part_at(tensor.stored_bytes, at);
    error = part_by_drive(tensor, part, tiers::Direction::read, lock);
    if (error != 0) break;
    std::byte* to = device_codec_->frame(piece) + at;
    error = link_->copy_in({&slab_, window_.extent().offset, to, part.bytes}, nullptr, &tensor.arrived);
    lock.unlock();
    proofs_.add_part(tensor, slab_.at(window_.extent()), at, part.bytes, &sum);
    error = synchronized(tensor.arrived, error);
    lock.lock();
    at += part.bytes;
  }
  leave_window();
  return error == 0 && sum != tensor.sum ? EBADMSG : error;
}

void Engine::give_up_cufile(Tensor& tensor) {
  tensor.through_host = true;
  ++counts_.io_errors;
}

int Engine::check_frame(const Tensor& tensor, const Piece& piece) {
  std::uint64_t sum = 0;
  if (const int error = frame_sum(piece, &sum); error != 0) return error;
  return sum == tensor.sum ? 0 : EBADMSG;
}

// Of the whole frame: the header's, which is over the table's, which is over the blocks'.
int Engine::frame_sum(const Piece& piece, std::uint64_t* out) {
  tiers::gpu::Device& device = link_->device();
  std::uint64_t sum = 0;
  Event copied = nullptr;
  const std::byte* from = device_codec_->frame(piece) + header_sum_at;
  int error = device.copy(link_->out(), &sum, from, sizeof(sum), tiers::gpu::Way::to_host);
  if (error == 0) error = link_->mark(link_->out(), &copied);
  if (error == 0) error = device.synchronize(copied);
  link_->give_event(copied);
  if (error == 0) *out = sum;
  return error;
}

}  // namespace terrace::liballoc::offload
