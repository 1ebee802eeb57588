// The extent of the slab through which tensors pass between the drive and what host memory does not hold
// (engine/windowed_path.h).
//
// It is there before a tensor is on the drive alone, and as large as that tensor needs: so whatever else
// fills host memory, the tensor can be brought back. It is made of the memory of the tensor that is dropped,
// if nothing else is free. One tensor at a time has it.
//
// Under the engine's lock. Errors are errno values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/gpu/offload/codec/stored_sum.h"
#include "liballoc/gpu/offload/memory/held_extent.h"
#include "liballoc/gpu/offload/room/common.h"

namespace terrace::liballoc::offload {

class Window {
 public:
  struct Part {
    std::uint64_t offset;  // in the tensor
    std::uint64_t bytes;
  };

  Window(Common* common, Slab* slab) : common_(common), slab_(slab), held_(slab) {}

  // Enough for any tensor that passes in parts, and not too small for a drive.
  std::uint64_t usual_bytes() const {
    return std::min(most_bytes, slab_->capacity_bytes() / share / sum_piece_bytes * sum_piece_bytes);
  }
  std::uint64_t bytes() const { return held_.bytes(); }
  bool is_usable() const { return bytes() >= sum_piece_bytes; }
  bool is_busy() const { return is_busy_; }

  // What the way back needs, once host memory does not hold the tensor any more. The host takes frames apart
  // as a whole.
  std::uint64_t needed_by(const Tensor& tensor) const {
    const bool comes_whole = common_->on_host() && !tensor.is_raw();
    return comes_whole ? tensor.memory.bytes : std::min(tensor.memory.bytes, usual_bytes());
  }
  bool may_grow_for(const Tensor& tensor) const { return !is_busy_ || needed_by(tensor) <= bytes(); }
  // The memory of a tensor that is dropped is free for others, or becomes the window if that is too small.
  void inherit(Tensor* tensor);
  // Holds `extent` instead, which was reserved. Nobody has the window, here and below.
  void hold(const tiers::Extent& extent) { held_.hold(extent); }
  HeldExtent& held() { return held_; }

  // 0, or why it is not to be had: then nobody has it. The way back waits where what the grant does not allow
  // for is in the way: that will be gone.
  int take(const Tensor& tensor, bool to_read, Lock& lock);
  void leave();
  // For who has it.
  std::byte* memory() const { return slab_->at(held_.extent()); }
  DeviceLink::Move move(const std::byte* device, std::uint64_t bytes) const {
    return {slab_, held_.extent().offset, const_cast<std::byte*>(device),
            bytes};  // read or written by the copy
  }
  // Of so many bytes the part from `offset` on: a multiple of what stored_sum() takes at a time, so that the
  // sum of the parts is the sum of the whole.
  Part part_at(std::uint64_t bytes, std::uint64_t offset) const;

 private:
  static constexpr std::uint64_t most_bytes = std::uint64_t{8} << 20;
  static constexpr std::uint64_t share = 16;  // of host memory

  Common* common_;
  Slab* slab_;
  HeldExtent held_;
  bool is_busy_ = false;
};

}  // namespace terrace::liballoc::offload
