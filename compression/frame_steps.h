// What making and reading a frame consist of, for compress() and decompress() with one thread
// (compressor.cpp) and with many (parallel.cpp).
#pragma once

#include "compression/compressor.h"

namespace terrace::compression {

// Frames and contents above this size do not fit into the caches next to what the program works on: they are
// written past them.
inline constexpr std::size_t streamed_above = std::size_t{1} << 20;

struct NewFrame {
  FrameError error = FrameError::none;
  const BlockCodec* codec = nullptr;
  Header header;  // but for payload_bytes
};

// Checks what compress() was given.
NewFrame begin_frame(std::span<const std::byte> content, std::span<const std::byte> frame,
                     const FrameOptions& options, CodecSet codecs);
// Writes what is around the blocks and their entries, which are complete.
Compressed finish_frame(std::byte* frame, const Header& header);

// Block i's content.
inline std::span<const std::byte> block_of(std::span<const std::byte> content, const Header& header,
                                           std::uint64_t i) {
  return content.subspan(i * block_bytes, header.content_of(i));
}

// Tells of block i and the one that its thread packs next, if there is such a one; what was fetched of block
// i as the next one counts.
void look_ahead(Ahead& ahead, std::span<const std::byte> content, const Header& header, std::uint64_t i,
                std::uint64_t next);

// Reads and checks header and table.
FrameError open_frame(std::span<const std::byte> frame, std::size_t content_bytes, Header& header);

}  // namespace terrace::compression
