#include "compression/compressor.h"

#include <algorithm>

#include "compression/bytes.h"
#include "compression/frame_steps.h"

namespace terrace::compression {
namespace {

FrameError check(std::span<const std::byte> content, std::span<const std::byte> frame,
                 const FrameOptions& options) {
  if (static_cast<int>(options.element) >= element_type_count || options.alignment_log2 < 4 ||
      options.alignment_log2 > 21)
    return FrameError::bad_argument;
  if (content.size() > max_content_bytes || content.size() % width_of(options.element) != 0)
    return FrameError::bad_argument;
  return frame.size() < frame_bound(content.size(), options.alignment_log2) ? FrameError::too_small
                                                                            : FrameError::none;
}

// A block after a raw one is stored as raw before anyone looks whether it is: dense tensors are dense
// throughout, and once it has been copied its samples are in the cache, for which encoding would have waited.
// Should it be none after all, it is stored again, as what it is, over that. (A raw block always has room: no
// block before was larger than its content.)
Entry store_block(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                  std::span<const std::byte> content, Workspace& workspace, std::byte* dst, bool after_raw) {
  std::uint64_t checksum = 0;
  if (after_raw) checksum = kernels.store(dst, content.data(), content.size(), {}, true);
  const EncodedBlock block = encode_unsummed(kernels, codec, type, content, workspace);
  if (!after_raw || block.entry.kind != BlockKind::raw) return store_extent(kernels, block, workspace, dst);
  Entry entry = block.entry;
  entry.checksum = checksum;
  return entry;
}

// The same for what is worth keeping in the caches.
Entry copy_block(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                 std::span<const std::byte> content, Workspace& workspace, std::byte* dst, bool) {
  const EncodedBlock block = encode_block(kernels, codec, type, content, workspace);
  if (!block.extent.empty()) std::memcpy(dst, block.extent.data(), block.extent.size());
  return block.entry;
}

}  // namespace

NewFrame begin_frame(std::span<const std::byte> content, std::span<const std::byte> frame,
                     const FrameOptions& options, CodecSet codecs) {
  if (const FrameError error = check(content, frame, options); error != FrameError::none)
    return {error, nullptr, {}};
  const BlockCodec* codec = codecs(options.codec);
  if (codec == nullptr) return {FrameError::codec_missing, nullptr, {}};
  return {.error = FrameError::none,
          .codec = codec,
          .header = {.codec = options.codec,
                     .element = options.element,
                     .alignment_log2 = static_cast<std::uint8_t>(options.alignment_log2),
                     .content_bytes = content.size(),
                     .payload_bytes = 0,
                     .payload_offset = payload_offset_for(content.size(), options.alignment_log2)}};
}

Compressed finish_frame(std::byte* frame, const Header& header) {
  const std::size_t table_end = header_bytes + header.blocks() * entry_bytes;
  std::memset(frame + table_end, 0, header.payload_offset - table_end);
  write_header(frame, header);
  return {FrameError::none, header.frame_bytes()};
}

Ahead ahead_of(std::span<const std::byte> content, const Header& header, std::uint64_t i) {
  if (i >= header.blocks()) return {};
  const auto block = block_of(content, header, i);
  return {block.data(), block.size()};
}

Compressed compress(std::span<const std::byte> content, std::span<std::byte> frame,
                    const FrameOptions& options, Workspace& workspace, CodecSet codecs, const Kernels& with) {
  auto [error, codec, header] = begin_frame(content, frame, options, codecs);
  if (error != FrameError::none) return {error};
  const auto put = content.size() > streamed_above ? store_block : copy_block;
  std::uint64_t offset = 0;
  bool after_raw = false;
  for (std::uint64_t i = 0; i < header.blocks(); ++i) {
    workspace.ahead = ahead_of(content, header, i + 1);
    Entry entry = put(with, *codec, options.element, block_of(content, header, i), workspace,
                      frame.data() + header.payload_offset + offset, after_raw);
    after_raw = entry.kind == BlockKind::raw;
    entry.offset_units = static_cast<std::uint32_t>(offset / payload_unit);
    write_entry(frame.data(), i, entry);
    header.payload_bytes = offset + entry.extent();
    offset = round_up(header.payload_bytes, payload_unit);
  }
  with.fence();
  return finish_frame(frame.data(), header);
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

FrameError open_frame(std::span<const std::byte> frame, std::size_t content_bytes, Header& header) {
  FrameError error = read_header(frame, header);
  if (error == FrameError::none && content_bytes != header.content_bytes) error = FrameError::wrong_size;
  if (error == FrameError::none && frame.size() < header.frame_bytes()) error = FrameError::truncated;
  return error == FrameError::none ? check_table(frame, header) : error;
}

FrameError decompress(std::span<const std::byte> frame, std::span<std::byte> content, Workspace& workspace,
                      CodecSet codecs, const Kernels& with) {
  Header header;
  FrameError error = open_frame(frame, content.size(), header);
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
