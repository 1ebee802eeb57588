// The emulated device's side of codec_kernels.h: the host's codecs, in the stream's turn.
#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/codec/codec_kernels.h"

namespace terrace::liballoc::offload {

void encode_emulated(void* codec_call) {
  const auto& call = *static_cast<const CodecCall*>(codec_call);
  const auto& source = call.source;
  const std::span content(static_cast<const std::byte*>(source.content), source.content_bytes);
  const std::span frame(static_cast<std::byte*>(source.frame), source.frame_capacity);
  const std::uint64_t start = os::now_ns();
  const auto made = compression::compress(content, frame, {.codec = source.codec, .element = source.element},
                                          *call.workspace);
  *call.verdict = {{made.bytes, made.error}, os::now_ns() - start};
}

void decode_emulated(void* codec_call) {
  const auto& call = *static_cast<const CodecCall*>(codec_call);
  const auto& target = call.target;
  const std::span frame(static_cast<const std::byte*>(target.frame), target.frame_bytes);
  const std::span content(static_cast<std::byte*>(target.content), target.content_bytes);
  const std::uint64_t start = os::now_ns();
  const auto error = compression::decompress(frame, content, *call.workspace);
  const std::uint64_t bytes = error == compression::FrameError::none ? target.content_bytes : 0;
  *call.verdict = {{bytes, error}, os::now_ns() - start};
}

}  // namespace terrace::liballoc::offload
