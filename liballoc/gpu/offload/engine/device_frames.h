// Frames made and taken apart by the device (device_codec.h), and their ways.
//
//   store()   frame crew: await ready ─ take a piece ─ kernel ─ await it ─┬─ copy its bytes           ──► out
//   crew
//                                                                         └─ cuFile writes the frame  ──► out
//                                                                         crew
//   in crew   take a piece ─┬─ copy from host memory        ─ kernel   ──► verdict crew: await it ─ tell
//                           ├─ cuFile reads the frame        ─ kernel
//                           └─ the drive reads it, through the window (windowed_path.h), also if cuFile fails
//
// The frame crew waits for `ready` before it takes a piece: the host runs ahead of the device, and pieces
// must not be held by tensors that nobody has computed yet. leave() does not wait for that: where the kernel
// is not launched yet it queues a copy of the tensor as it is, and the crew finds `departed`. arrive() waits
// for the verdict, though not for the device itself: damaged bytes are not followed by an order to use them.
// After a fetch in good time the verdict is there.
//
// A frame goes by cuFile (direct_path.h) where host memory does not hold the tensor. Nobody on the host sees
// the bytes then, so none sums them: the frame has sums of its blocks (docs/formats/frame.md), raw ones too,
// made and verified by the kernels. An older frame, where cuFile lost a write, has another sum in its header
// than the tensor remembers. Such a tensor is one that goes in pieces and has a shorter way. It has the place
// for that as well: when cuFile refuses it, its pieces go through the window; when cuFile does not bring the
// frame back, or not as it was, the same extent is read through the window. It is read ahead as others are,
// into host memory: what lies there does not go directly.
//
// By threads that use the tensor; `lock`, or what is said of it, is the engine's. Errors are errno values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "liballoc/gpu/offload/codec/device_codec.h"
#include "liballoc/gpu/offload/drive/direct_path.h"
#include "liballoc/gpu/offload/engine/uses.h"
#include "liballoc/gpu/offload/engine/windowed_path.h"
#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/room/drive_room.h"
#include "liballoc/gpu/offload/room/host_room.h"

namespace terrace::liballoc::offload {

class DeviceFrames {
 public:
  DeviceFrames(Common* common, HostRoom* host, DriveRoom* drive, Uses* uses, WindowedPath* windowed)
      : common_(common), host_(host), drive_(drive), uses_(uses), windowed_(windowed) {}

  // As DeviceCodec::open().
  int open(const Settings& settings, std::string* reason);
  // The direct path, where it pays; what path() says of it. Its frames need kernels, also where nothing is
  // compressed.
  std::string open_direct(const Settings& settings);
  bool is_open() const { return codec_ != nullptr; }
  void trim();
  void crossed_drive(std::uint64_t bytes, std::uint64_t ns) {
    if (codec_ != nullptr) codec_->crossed_drive(bytes, ns);
  }

  // Under the lock: which codec is to be tried, and whether the direct path may be.
  void plan(Tensor& tensor);
  bool may_go_directly(const Tensor& tensor) const { return direct_ != nullptr && codec_->holds(tensor); }
  static std::uint64_t direct_bytes(const Tensor& tensor);

  // The frame crew's work, and the verdict crew's.
  void make(const TensorPtr& tensor);
  void judge(const TensorPtr& tensor);
  // By a thread of the out crew, once the copy has passed, or cuFile has written.
  void give_back_piece(Tensor& tensor);
  int end_direct_store(Tensor& tensor);
  // From host memory, or past it. 0: the rest is in the device's streams, and judge()'s.
  int carry_in(Tensor& tensor, Lock& lock);

 private:
  int prove_direct(const Settings& settings, std::string* reason);
  int run_encoder(Tensor& tensor);
  int copy_what_was_made(Tensor& tensor);
  int write_directly(Tensor& tensor);
  int bring(Tensor& tensor, const Piece& piece);
  int read_directly(const Tensor& tensor, const Piece& piece);
  void give_up_cufile(Tensor& tensor);
  int header_of(const Piece& piece, std::uint64_t* sum);

  Common* common_;
  HostRoom* host_;
  DriveRoom* drive_;
  Uses* uses_;
  WindowedPath* windowed_;
  std::unique_ptr<DeviceCodec> codec_;  // none: nothing is compressed on the device
  std::unique_ptr<DirectPath> direct_;  // none: it does not work here, or does not pay
};

}  // namespace terrace::liballoc::offload
