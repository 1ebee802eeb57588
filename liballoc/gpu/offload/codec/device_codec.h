// Compression on the device: which codec, and frames made and taken apart by kernels on two streams of its
// own, one each way, so that kernels run beside the copies of other tensors. Nothing here waits but take().
//
//   out   source ──kernel──► piece ──copy──► slab          in   slab ──copy──► piece ──kernel──► target
//           │                  │ verdict: bytes                                  │ verdict
//         coded              pinned host memory                               arrived
//
// Any thread may call anything; an object (tensor, piece) is not used by two threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "liballoc/gpu/offload/codec/codec_choice.h"
#include "liballoc/gpu/offload/codec/codec_kernels.h"
#include "liballoc/gpu/offload/codec/staging.h"
#include "liballoc/gpu/offload/memory/device_link.h"
#include "liballoc/gpu/offload/settings.h"
#include "liballoc/gpu/offload/tensors/tensor.h"

namespace terrace::liballoc::offload {

class DeviceCodec {
 public:
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;
  ~DeviceCodec();

  // Takes a page of the slab for the verdicts. Both stay alive. 0, or errno with *reason: ENOTSUP where no
  // kernel runs.
  int open(DeviceLink* link, Slab* slab, const Settings& settings, std::string* reason);

  // Whether the staging is large enough for a tensor.
  bool holds(const Tensor& tensor) const { return piece_bytes(tensor.bytes) <= staging_.capacity_bytes(); }
  // Or is here for the direct path alone, whose frames may be raw.
  bool compresses() const { return choice_ || codec_ != compression::Codec::raw; }
  // raw: store it as it is.
  compression::Codec choose(const Tensor& tensor);

  // As Staging's, large enough for the tensor's frame.
  Piece* take(const Tensor& tensor) { return staging_.take(piece_bytes(tensor.bytes)); }
  void give(Piece* piece) { staging_.give(piece); }
  // The same for a piece that an encode() or decode() which failed may have left at work.
  void abandon(Piece* piece);
  // Its memory goes back to the device while no frame is under way.
  void trim() { staging_.give_back(); }
  std::byte* frame(const Piece& piece) const { return staging_.at(piece); }

  // Queues the kernel, by the tensor's codec_to_try, and marks its end. The tensor is ready. 0 or errno.
  int encode(const Tensor& tensor, Piece& piece, Event* coded);
  struct Made {
    std::uint64_t bytes = 0;        // of the frame; 0: none was made
    bool is_worth_keeping = false;  // else the tensor moves as it is, where it can
    std::uint64_t ns = 0;
  };
  // Once `coded` has passed.
  Made made(const Tensor& tensor, const Piece& piece);

  // Queues the copy of the frame and behind it and `to_free` the kernel that writes the target. 0 or errno;
  // EINVAL, nothing queued: `to` is not aligned to the tensor's element, which kernels write at once.
  int decode(const Tensor& tensor, Piece& piece, Event* arrived);
  // The same for a frame that is in the piece already: no copy.
  int decode_staged(const Tensor& tensor, Piece& piece, Event* arrived);
  // Once `arrived` has passed: 0, or EBADMSG for a frame that is damaged.
  int verdict(const Tensor& tensor, const Piece& piece, std::uint64_t* ns);

  // The time that a copy out which began and ended then took; copies follow each other.
  void crossed_link(std::uint64_t bytes, std::uint64_t begun_ns, std::uint64_t ended_ns);
  void crossed_drive(std::uint64_t bytes, std::uint64_t ns);

 private:
  int open_kernels(std::string* reason);
  std::uint64_t scratch_bytes(std::uint64_t content_bytes) const;
  std::uint64_t piece_bytes(std::uint64_t content_bytes) const;
  static bool takes_target(const Tensor& tensor);
  void describe(const Tensor& tensor, Piece& piece, compression::Workspace* workspace);
  int launch(Stream stream, Piece& piece, int (*cuda)(void*, void*), void (*emulated)(void*));

  DeviceLink* link_ = nullptr;
  Slab* slab_ = nullptr;
  const CodecKernels* kernels_ = nullptr;  // none: the emulated device
  CodecPlan plan_;
  compression::Codec codec_ = compression::Codec::raw;
  std::optional<CodecChoice> choice_;  // under "auto"
  Staging staging_;
  Stream encode_ = nullptr;
  Stream decode_ = nullptr;
  std::unique_ptr<compression::Workspace> encode_workspace_;
  std::unique_ptr<compression::Workspace> decode_workspace_;
  std::mutex mutex_;
  std::uint64_t link_free_ns_ = 0;  // when the copy before ended
};

}  // namespace terrace::liballoc::offload
