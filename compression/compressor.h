// Whole frames. Any thread may call these at any time with a workspace of its own; nothing is allocated, no
// lock taken.
#pragma once

#include "compression/block.h"

namespace terrace::compression {

struct FrameOptions {
  Codec codec = Codec::zvc;
  ElementType element = ElementType::f32;
  unsigned alignment_log2 = 4;  // of the payload within the frame: 12 for O_DIRECT
};

struct Compressed {
  FrameError error = FrameError::none;
  std::size_t bytes = 0;  // of the frame
};

// `frame` has at least frame_bound(content.size(), alignment_log2) bytes; what lies behind the frame in it
// may be overwritten. content.size() is a multiple of the element's width. The two do not overlap.
Compressed compress(std::span<const std::byte> content, std::span<std::byte> frame,
                    const FrameOptions& options, Workspace& workspace, CodecSet codecs = own_codecs,
                    const Kernels& with = kernels());

// `content` is exactly the header's content_bytes; read_header() says how many. Bytes behind the frame are
// ignored. On an error some of `content` may have been written.
FrameError decompress(std::span<const std::byte> frame, std::span<std::byte> content, Workspace& workspace,
                      CodecSet codecs = own_codecs, const Kernels& with = kernels());

// Block i alone. The table has been checked (check_table) before.
FrameError decompress_block(std::span<const std::byte> frame, const Header& header, std::uint64_t i,
                            std::span<std::byte> content, Workspace& workspace, CodecSet codecs = own_codecs,
                            const Kernels& with = kernels());

}  // namespace terrace::compression
