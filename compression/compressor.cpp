#include "compression/compressor.h"

#include <algorithm>

#include "compression/bytes.h"

namespace terrace::compression {
namespace {

// Frames above this size do not fit into the caches next to what the program works on: they are written past
// them.
constexpr std::size_t streamed_above = std::size_t{1} << 20;

FrameError check(std::span<const std::byte> content, std::span<std::byte> frame,
                 const FrameOptions& options) {
  if (static_cast<int>(options.element) >= element_type_count || options.alignment_log2 < 4 ||
      options.alignment_log2 > 21)
    return FrameError::bad_argument;
  if (content.size() > max_content_bytes || content.size() % width_of(options.element) != 0)
    return FrameError::bad_argument;
  return frame.size() < frame_bound(content.size(), options.alignment_log2) ? FrameError::too_small
                                                                            : FrameError::none;
}

// The next block, from `begin` on.
Ahead ahead_of(std::span<const std::byte> content, std::uint64_t begin) {
  if (begin >= content.size()) return {};
  return {content.data() + begin, std::min<std::size_t>(block_bytes, content.size() - begin)};
}

// store_block() for what is worth keeping in the caches.
Entry copy_block(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                 std::span<const std::byte> content, Workspace& workspace, std::byte* dst) {
  const EncodedBlock block = encode_block(kernels, codec, type, content, workspace);
  if (!block.extent.empty()) std::memcpy(dst, block.extent.data(), block.extent.size());
  return block.entry;
}

}  // namespace

Compressed compress(std::span<const std::byte> content, std::span<std::byte> frame,
                    const FrameOptions& options, Workspace& workspace, CodecSet codecs, const Kernels& with) {
  if (const FrameError error = check(content, frame, options); error != FrameError::none) return {error};
  const BlockCodec* codec = codecs(options.codec);
  if (codec == nullptr) return {FrameError::codec_missing};
  Header header{.codec = options.codec,
                .element = options.element,
                .alignment_log2 = static_cast<std::uint8_t>(options.alignment_log2),
                .content_bytes = content.size(),
                .payload_bytes = 0,
                .payload_offset = payload_offset_for(content.size(), options.alignment_log2)};
  const bool streamed = content.size() > streamed_above;
  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; i < header.blocks(); ++i) {
    const auto block = content.subspan(i * block_bytes, header.content_of(i));
    workspace.ahead = ahead_of(content, (i + 1) * block_bytes);
    std::byte* dst = frame.data() + header.payload_offset + offset;
    Entry entry = (streamed ? store_block : copy_block)(with, *codec, options.element, block, workspace, dst);
    entry.offset_units = static_cast<std::uint32_t>(offset / payload_unit);
    write_entry(frame.data(), i, entry);
    header.payload_bytes = offset + entry.extent();
    offset = round_up(header.payload_bytes, payload_unit);
  }
  with.fence();
  const std::size_t table_end = header_bytes + header.blocks() * entry_bytes;
  std::memset(frame.data() + table_end, 0, header.payload_offset - table_end);
  write_header(frame.data(), header);
  return {FrameError::none, header.frame_bytes()};
}

FrameError decompress_block(std::span<const std::byte> frame, const Header& header, std::uint64_t i,
                            std::span<std::byte> content, Workspace& workspace, CodecSet codecs,
                            const Kernels& with) {
  const BlockCodec* codec = codecs(header.codec);
  if (codec == nullptr) return FrameError::codec_missing;
  if (i >= header.blocks() || content.size() != header.content_of(i)) return FrameError::wrong_size;
  const Entry entry = read_entry(frame, i);
  if (frame.size() < header.payload_offset + entry.offset() + entry.extent()) return FrameError::truncated;
  const auto extent = frame.subspan(header.payload_offset + entry.offset(), entry.extent());
  return decode_block(with, *codec, header.element, entry, extent, content, workspace)
             ? FrameError::none
             : FrameError::bad_block;
}

FrameError decompress(std::span<const std::byte> frame, std::span<std::byte> content, Workspace& workspace,
                      CodecSet codecs, const Kernels& with) {
  Header header;
  FrameError error = read_header(frame, header);
  if (error == FrameError::none && content.size() != header.content_bytes) error = FrameError::wrong_size;
  if (error == FrameError::none && frame.size() < header.frame_bytes()) error = FrameError::truncated;
  if (error == FrameError::none) error = check_table(frame, header);
  workspace.ahead = {};
  workspace.past_caches = content.size() > streamed_above;
  for (std::uint64_t i = 0; error == FrameError::none && i < header.blocks(); ++i)
    error = decompress_block(frame, header, i, content.subspan(i * block_bytes, header.content_of(i)),
                             workspace, codecs, with);
  workspace.past_caches = false;
  with.fence();
  return error;
}

}  // namespace terrace::compression
