#include "liballoc/gpu/offload/engine/device_frames.h"

#include <cerrno>
#include <utility>

#include "compression/frame.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {

int DeviceFrames::open(const Settings& settings, std::string* reason) {
  auto codec = std::make_unique<DeviceCodec>();
  const int error = codec->open(common_->link.get(), &host_->slab(), settings, reason);
  if (error == 0) codec_ = std::move(codec);
  return error;
}

std::string DeviceFrames::open_direct(const Settings& settings) {
  std::string reason;
  if (!drive_->is_open() || !common_->is_cuda()) return "";
  if (prove_direct(settings, &reason) == 0) return ", GPUDirect Storage to " + settings.nvme_directory;
  return ", without GPUDirect Storage: " + reason;
}

int DeviceFrames::prove_direct(const Settings& settings, std::string* reason) {
  auto direct = std::make_unique<DirectPath>();
  if (const int error = direct->open(&common_->device(), &drive_->drive(), reason); error != 0) return error;
  WriteBudget& writes = drive_->writes();
  if (const int error = writes.take(DirectPath::probe_writes_bytes); error != 0) {
    *reason = "the drive's endurance budget has no room for a probe";
    return error;
  }
  writes.submitted(DirectPath::probe_writes_bytes);
  if (const int error = direct->prove(reason); error != 0) return error;
  if (codec_ == nullptr)
    if (const int error = open(settings, reason); error != 0) return error;
  direct_ = std::move(direct);
  return 0;
}

// While no frame is under way.
void DeviceFrames::trim() {
  if (codec_ != nullptr) codec_->trim();
}

void DeviceFrames::plan(Tensor& tensor) {
  if (codec_ == nullptr) return;
  tensor.pressed = host_->is_pressed();
  if (codec_->holds(tensor))
    tensor.codec_to_try = codec_->choose(tensor);
  else if (codec_->compresses())
    ++common_->counts.not_staged;
}

std::uint64_t DeviceFrames::direct_bytes(const Tensor& tensor) {
  return whole_blocks(compression::frame_bound(tensor.bytes));
}

void DeviceFrames::make(const TensorPtr& tensor) {
  int error = common_->device().synchronize(tensor->ready);
  if (error == 0) error = run_encoder(*tensor);
  if (error == 0) error = tensor->direct ? write_directly(*tensor) : copy_what_was_made(*tensor);
  {
    const Lock lock(common_->mutex);
    if (error != 0) tensor->error = error;
  }
  common_->executor.queue(Stage::out, tensor);
}

// Without a piece, or where the kernel cannot be launched, the tensor goes as it is.
int DeviceFrames::run_encoder(Tensor& tensor) {
  Piece* piece = codec_->take(tensor);
  Lock lock(common_->mutex);
  if (piece == nullptr) {
    ++common_->counts.not_staged;
    return 0;
  }
  if (tensor.gone || tensor.departed != nullptr) {
    codec_->give(piece);
    return 0;
  }
  const int error = codec_->encode(tensor, *piece, &tensor.coded);
  lock.unlock();
  if (error != 0) {
    codec_->abandon(piece);
    return 0;
  }
  tensor.leaving_piece = piece;
  return common_->device().synchronize(tensor.coded);
}

// The source is read only while the tensor is somebody's: who released it may have given its memory away.
int DeviceFrames::copy_what_was_made(Tensor& tensor) {
  DeviceCodec::Made made;
  if (tensor.leaving_piece != nullptr) made = codec_->made(tensor, *tensor.leaving_piece);
  const Lock lock(common_->mutex);
  common_->counts.compress_ns += made.ns;
  if (tensor.gone || tensor.departed != nullptr) return 0;
  auto* from = const_cast<std::byte*>(tensor.source);
  if (made.is_worth_keeping) {
    tensor.codec = tensor.codec_to_try;
    tensor.stored_bytes = made.bytes;
    common_->counts.compressed_bytes += tensor.bytes;
    common_->counts.frame_bytes += made.bytes;
    host_->slab().shrink(&tensor.memory, made.bytes);
    from = codec_->frame(*tensor.leaving_piece);
  } else if (tensor.leaving_piece != nullptr) {
    codec_->give(std::exchange(tensor.leaving_piece, nullptr));
  }
  tensor.copy_begun_ns = os::now_ns();
  const DeviceLink::Move move{&host_->slab(), tensor.memory.offset, from, tensor.stored_bytes};
  return common_->link->copy_out(move, tensor.ready, &tensor.departed);
}

void DeviceFrames::give_back_piece(Tensor& tensor) {
  if (tensor.leaving_piece == nullptr) return;
  if (tensor.departed != nullptr)
    codec_->crossed_link(tensor.stored_bytes, tensor.copy_begun_ns, os::now_ns());
  codec_->give(std::exchange(tensor.leaving_piece, nullptr));
}

int DeviceFrames::write_directly(Tensor& tensor) {
  Piece* piece = std::exchange(tensor.leaving_piece, nullptr);
  if (piece == nullptr) return ENOMEM;
  const DeviceCodec::Made made = codec_->made(tensor, *piece);
  const tiers::Extent extent{tensor.disk.offset, whole_blocks(made.bytes)};
  const std::uint64_t begun_ns = os::now_ns();
  int error = made.bytes == 0 ? EIO : direct_->write(codec_->frame(*piece), extent);
  std::uint64_t sum = 0;
  if (error == 0) error = header_of(*piece, &sum);
  codec_->give(piece);
  if (error == 0) codec_->crossed_drive(extent.bytes, os::now_ns() - begun_ns);
  const Lock lock(common_->mutex);
  terrace_offload_statistics& counts = common_->counts;
  counts.compress_ns += made.ns;
  drive_->was_submitted(tensor, extent.bytes);
  if (error != 0) {
    ++counts.io_errors;
    return error;
  }
  drive_->charge(tensor, 0);  // what the frame did not need
  drive_->shrink(tensor, extent.bytes);
  counts.nvme_written_bytes += extent.bytes;
  counts.direct_bytes += extent.bytes;
  if (tensor.codec_to_try != compression::Codec::raw) {
    counts.compressed_bytes += tensor.bytes;
    counts.frame_bytes += made.bytes;
  }
  tensor.codec = tensor.codec_to_try;
  tensor.stored_bytes = made.bytes;
  tensor.sum = sum;
  tensor.proof = Tensor::Proof::header;
  tensor.disk_filled = true;
  return 0;
}

// The source is still whole: what cuFile refused goes in pieces, and is written once more.
int DeviceFrames::end_direct_store(Tensor& tensor) {
  {
    const Lock lock(common_->mutex);
    if (tensor.error == 0) return 0;
    if (tensor.gone) return ECANCELED;
    tensor.direct = false;
    tensor.source_in_use = true;
    drive_->shrink(tensor, whole_blocks(tensor.bytes));
    if (const int error = drive_->charge(tensor, whole_blocks(tensor.bytes)); error != 0) return error;
  }
  return windowed_->carry_out(tensor);
}

int DeviceFrames::carry_in(Tensor& tensor, Lock& lock) {
  const bool is_here = tensor.memory_filled;
  lock.unlock();
  Piece* piece = codec_->take(tensor);
  int error = piece == nullptr ? ENOMEM : is_here ? 0 : bring(tensor, *piece);
  lock.lock();
  if (error == 0)
    error = is_here ? codec_->decode(tensor, *piece, &tensor.arrived)
                    : codec_->decode_staged(tensor, *piece, &tensor.arrived);
  if (error == 0) {
    tensor.arriving_piece = piece;
  } else if (piece != nullptr) {
    lock.unlock();
    codec_->abandon(piece);
    lock.lock();
  }
  return error;
}

// What cuFile brought, or failed to bring, says little about what the drive has: the host looks as well.
int DeviceFrames::bring(Tensor& tensor, const Piece& piece) {
  if (tensor.comes_by_cufile() && read_directly(tensor, piece) == 0) return 0;
  Lock lock(common_->mutex);
  if (tensor.comes_by_cufile()) give_up_cufile(tensor);
  return windowed_->carry_in(tensor, codec_->frame(piece), nullptr, lock);
}

int DeviceFrames::read_directly(const Tensor& tensor, const Piece& piece) {
  const tiers::Extent extent{tensor.disk.offset, whole_blocks(tensor.stored_bytes)};
  const std::uint64_t begun_ns = os::now_ns();
  if (const int error = direct_->read(codec_->frame(piece), extent); error != 0) return error;
  codec_->crossed_drive(extent.bytes, os::now_ns() - begun_ns);
  {
    const Lock lock(common_->mutex);
    common_->counts.nvme_read_bytes += extent.bytes;
    common_->counts.direct_bytes += extent.bytes;
  }
  std::uint64_t sum = 0;
  const int error = header_of(piece, &sum);
  return error == 0 && sum != tensor.sum ? EBADMSG : error;
}

void DeviceFrames::give_up_cufile(Tensor& tensor) {
  tensor.through_host = true;
  ++common_->counts.io_errors;
}

// The sum of the whole frame: the header's, which is over the table's, which is over the blocks'.
int DeviceFrames::header_of(const Piece& piece, std::uint64_t* sum) {
  DeviceLink& link = *common_->link;
  std::uint64_t copy = 0;
  Event copied = nullptr;
  const std::byte* from = codec_->frame(piece) + header_sum_at;
  int error = link.device().copy(link.out(), &copy, from, sizeof(copy), tiers::gpu::Way::to_host);
  if (error == 0) error = link.mark(link.out(), &copied);
  if (error == 0) error = link.device().synchronize(copied);
  link.give_event(copied);
  if (error == 0) *sum = copy;
  return error;
}

void DeviceFrames::judge(const TensorPtr& tensor) {
  std::uint64_t ns = 0;
  int error = common_->device().synchronize(tensor->arrived);
  if (error == 0) error = codec_->verdict(*tensor, *tensor->arriving_piece, &ns);
  codec_->give(std::exchange(tensor->arriving_piece, nullptr));
  const Lock lock(common_->mutex);
  common_->counts.decompress_ns += ns;
  if (error == EBADMSG && tensor->comes_by_cufile()) {
    give_up_cufile(*tensor);
    tensor->arrival = Tensor::Arrival::queued;
    common_->executor.queue(Stage::in, tensor);
  } else {
    if (error == EBADMSG) ++common_->counts.checksum_failures;
    tensor->arrival = error == 0 ? Tensor::Arrival::under_way : Tensor::Arrival::failed;
    tensor->arrival_error = error;
  }
  uses_->end(*tensor);
  common_->changed.notify_all();
  common_->stir();
}

}  // namespace terrace::liballoc::offload
