// CPU tensors between their memory and the engine's: copied by the host's threads, compressed there
// (host_codec.h), and summed on the way where the sum is wanted, while the bytes are in the cache.
//
// By a thread that uses the tensor, without the engine's lock. Errors are errno values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "liballoc/gpu/offload/codec/host_codec.h"
#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/room/host_room.h"

namespace terrace::liballoc::offload {

class HostCopies {
 public:
  HostCopies(Common* common, HostRoom* host) : common_(common), host_(host) {}

  void open(const Settings& settings);
  // Tensors may go on to a drive: they are summed as they are copied.
  void sum_for_drive() { sums_for_drive_ = true; }

  // Under the lock: room for the tensor, and if there is so much for a frame that is made in place: it is cut
  // to its size when that is known. For tensors of a device, too.
  int reserve(Tensor& tensor);
  int carry_out(Tensor& tensor);
  // To its target, from its source if it is handed back.
  int carry_in(Tensor& tensor);
  int carry_in_frame(Tensor& tensor, const std::byte* frame);
  void crossed_drive(bool out, std::uint64_t bytes, std::uint64_t ns) {
    if (codec_ != nullptr) codec_->moved(HostCodec::Way::drive, out, bytes, ns);
  }

 private:
  bool encode(Tensor& tensor, std::byte* frame);
  int decode(Tensor& tensor, const std::byte* frame);

  Common* common_;
  HostRoom* host_;
  std::unique_ptr<HostCodec> codec_;  // none: stored as they are
  bool sums_for_drive_ = false;
};

}  // namespace terrace::liballoc::offload
