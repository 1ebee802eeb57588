// Compression on the host's processors, for CPU tensors: which codec, if any, and frames (compression/).
// Under "auto" the advisor decides for each tensor, by what is known of its site, the codecs' times on this
// machine and those of the way out: the drive's while tensors go on to there, else the copies to host memory
// and back. A frame needs no copy: the codec writes it where it stays, and reads it there. So what raw costs
// in memory is known only from copies: the first tensors of a size go raw until some were timed each way, and
// now and then one of a site whose tensors are compressed.
//
// Any thread may call anything.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "compression/advisor/advisor.h"
#include "compression/compressor.h"
#include "liballoc/gpu/offload/settings.h"
#include "liballoc/gpu/offload/tensors/tensor.h"

namespace terrace::liballoc::offload {

class HostCodec {
 public:
  enum class Way : std::uint8_t { memory, drive };

  HostCodec(Compress compress, compression::Codec codec);

  // The bytes that `frame` must have for a tensor.
  static std::uint64_t bound(std::uint64_t bytes) { return compression::frame_bound(bytes); }

  struct Made {
    compression::Codec codec = compression::Codec::raw;  // raw: nothing was made, move the bytes as they are
    std::uint64_t bytes = 0;
    std::uint64_t ns = 0;
  };
  Made encode(const Tensor& tensor, std::span<const std::byte> content, std::span<std::byte> frame, Way way);
  // False: the frame is damaged, or not one of `content`'s size.
  bool decode(std::span<const std::byte> frame, std::span<std::byte> content, std::uint64_t* ns);

  // What a way took for so many bytes. In memory: for a raw tensor's copy.
  void moved(Way way, bool out, std::uint64_t bytes, std::uint64_t ns);

 private:
  std::optional<compression::Decision> decide(const Tensor& tensor, std::span<const std::byte> content,
                                              Way way);
  bool is_copy_due(const Tensor& tensor);
  compression::History& history(const Tensor& tensor);
  std::unique_ptr<compression::Workspace> take_workspace();
  void give_workspace(std::unique_ptr<compression::Workspace> workspace);

  const Compress compress_;
  const compression::Codec codec_;
  std::mutex mutex_;
  std::unique_ptr<compression::Advisor> advisor_;
  std::array<compression::Link, 2> links_;
  std::vector<compression::History> histories_;
  std::vector<std::uint32_t> frames_in_a_row_;  // of a class, in memory
  std::vector<std::unique_ptr<compression::Workspace>> workspaces_;
};

}  // namespace terrace::liballoc::offload
