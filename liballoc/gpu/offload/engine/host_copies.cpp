#include "liballoc/gpu/offload/engine/host_copies.h"

#include <cerrno>
#include <cstring>

#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {
namespace {

int spoiled(Tensor& tensor) {
  std::memset(tensor.to, poison, tensor.bytes);
  return EBADMSG;
}

}  // namespace

void HostCopies::open(const Settings& settings) {
  codec_ = std::make_unique<HostCodec>(settings.compress, settings.codec);
}

int HostCopies::reserve(Tensor& tensor) {
  if (codec_ != nullptr && host_->reserve(HostCodec::bound(tensor.bytes), &tensor.memory) == 0) return 0;
  return host_->reserve(tensor.bytes, &tensor.memory);
}

int HostCopies::carry_out(Tensor& tensor) {
  std::byte* memory = host_->at(tensor);
  if (codec_ != nullptr && encode(tensor, memory)) {
    common_->proofs.take(tensor, memory);
    return 0;
  }
  const std::uint64_t start = os::now_ns();
  common_->proofs.take_copy(tensor, memory, sums_for_drive_);
  if (codec_ != nullptr) codec_->moved(HostCodec::Way::memory, true, tensor.bytes, os::now_ns() - start);
  return 0;
}

// True if `frame`, which may be the tensor's memory, is what to store.
bool HostCopies::encode(Tensor& tensor, std::byte* frame) {
  const std::uint64_t bound = HostCodec::bound(tensor.bytes);
  if (tensor.memory.bytes < bound) return false;
  const auto way = tensor.pressed ? HostCodec::Way::drive : HostCodec::Way::memory;
  const auto made = codec_->encode(tensor, {tensor.source, tensor.bytes}, {frame, bound}, way);
  const Lock lock(common_->mutex);
  common_->counts.compress_ns += made.ns;
  if (made.codec == compression::Codec::raw) return false;
  common_->counts.compressed_bytes += tensor.bytes;
  common_->counts.frame_bytes += made.bytes;
  tensor.codec = made.codec;
  tensor.stored_bytes = made.bytes;
  return true;
}

int HostCopies::carry_in(Tensor& tensor) {
  if (tensor.handed_back) {
    std::memcpy(tensor.to, tensor.source, tensor.bytes);
    return 0;
  }
  const std::byte* memory = host_->at(tensor);
  if (!tensor.is_raw()) return carry_in_frame(tensor, memory);
  const std::uint64_t start = os::now_ns();
  const bool is_intact = common_->proofs.hold_copy(tensor, memory);
  if (codec_ != nullptr) codec_->moved(HostCodec::Way::memory, false, tensor.bytes, os::now_ns() - start);
  return is_intact ? 0 : spoiled(tensor);
}

int HostCopies::carry_in_frame(Tensor& tensor, const std::byte* frame) {
  return common_->proofs.hold(tensor, frame) ? decode(tensor, frame) : spoiled(tensor);
}

int HostCopies::decode(Tensor& tensor, const std::byte* frame) {
  std::uint64_t ns = 0;
  if (!codec_->decode({frame, tensor.stored_bytes}, {tensor.to, tensor.bytes}, &ns)) return spoiled(tensor);
  const Lock lock(common_->mutex);
  common_->counts.decompress_ns += ns;
  return 0;
}

}  // namespace terrace::liballoc::offload
