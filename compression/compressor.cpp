#include "compression/compressor.h"

#include <algorithm>

#include "compression/base/bytes.h"
#include "compression/frame_steps.h"
#include "compression/kernels/pack.h"

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

// Blocks on their way into a frame, past the caches: while one is encoded, the one before is stored.
class Blocks {
 public:
  Blocks(const Kernels& kernels, const BlockCodec& codec, ElementType type, std::byte* frame,
         Workspace& workspace)
      : kernels_(kernels), codec_(codec), type_(type), frame_(frame), workspace_(workspace) {}

  // Encodes block i and begins to store it at `dst`, which is `offset` bytes into the payload. Returns its
  // extent's bytes.
  //
  // A block after a raw one is stored as raw before anyone looks whether it is: dense tensors are dense
  // throughout, and once it has been copied its samples are in the cache, for which encoding would have
  // waited. Should it be none after all, it is stored again, as what it is, over that. (A raw block always
  // has room: no block before was larger than its content.)
  std::size_t put(std::uint64_t i, std::span<const std::byte> content, std::byte* dst, std::uint64_t offset) {
    const bool after_raw = last_.kind == BlockKind::raw;
    const std::uint64_t checksum = after_raw ? store_raw(dst, content) : 0;
    workspace_.packs_unsampled = !after_raw;
    const EncodedBlock block = encode_unsummed(kernels_, codec_, type_, content, workspace_);
    fetch_in_half_gap(workspace_.ahead);
    finish();
    failed_ = failed_ || block.failed;
    block_ = i;
    last_ = block.entry;
    last_.offset_units = static_cast<std::uint32_t>(offset / payload_unit);
    if (last_.kind == BlockKind::raw)
      complete(after_raw ? checksum : store_raw(dst, content));
    else
      begin(block.extent, dst);
    return block.extent.size();
  }

  bool failed() const { return failed_; }

  // Stores what is left of the last block.
  void finish() {
    Storing& storing = workspace_.storing;
    if (storing.bytes > 0) complete(kernels_.store_rest(storing));
    storing = {};
  }

 private:
  std::uint64_t store_raw(std::byte* dst, std::span<const std::byte> content) {
    return kernels_.store(dst, content.data(), content.size(), true);
  }

  void begin(std::span<const std::byte> extent, std::byte* dst) {
    if (extent.empty()) return complete(0);
    __builtin_prefetch(dst + extent.size(), 1);
    __builtin_prefetch(frame_ + header_bytes + block_ * entry_bytes + std::size_t{2} * 64, 1);
    workspace_.storing.dst = dst;
    workspace_.storing.src = extent.data();
    workspace_.storing.bytes = extent.size();
    workspace_.turn ^= 1;
  }

  void complete(std::uint64_t checksum) {
    last_.checksum = checksum;
    write_entry(frame_, block_, last_);
  }

  const Kernels& kernels_;
  const BlockCodec& codec_;
  ElementType type_;
  std::byte* frame_;
  Workspace& workspace_;
  Entry last_;  // of block_, whose extent is being stored
  std::uint64_t block_ = 0;
  bool failed_ = false;
};

// All blocks of a frame that does not fit into the caches. Returns the payload's bytes.
Compressed put_all_past(const Kernels& kernels, const BlockCodec& codec, std::span<const std::byte> content,
                        std::byte* frame, const Header& header, Workspace& workspace) {
  Blocks blocks(kernels, codec, header.element, frame, workspace);
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < header.blocks() && !blocks.failed(); ++i) {
    look_ahead(workspace.ahead, content, header, i, i + 1);
    end += blocks.put(i, block_of(content, header, i), frame + header.payload_offset + end, end);
  }
  blocks.finish();
  workspace.ahead = {};
  kernels.fence();
  return {blocks.failed() ? FrameError::codec_failed : FrameError::none, end};
}

// The same for what is worth keeping in the caches.
Compressed put_all(const Kernels& kernels, const BlockCodec& codec, std::span<const std::byte> content,
                   std::byte* frame, const Header& header, Workspace& workspace) {
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < header.blocks(); ++i) {
    auto [entry, extent, failed] =
        encode_block(kernels, codec, header.element, block_of(content, header, i), workspace);
    if (failed) return {FrameError::codec_failed};
    if (!extent.empty()) std::memcpy(frame + header.payload_offset + end, extent.data(), extent.size());
    entry.offset_units = static_cast<std::uint32_t>(end / payload_unit);
    write_entry(frame, i, entry);
    end += extent.size();
  }
  return {FrameError::none, end};
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

void look_ahead(Ahead& ahead, std::span<const std::byte> content, const Header& header, std::uint64_t i,
                std::uint64_t next) {
  const auto block = block_of(content, header, i);
  const auto after = next < header.blocks() ? block_of(content, header, next) : std::span<const std::byte>();
  const bool goes_on = ahead.next == block.data() && ahead.rows >= rows_of_block;
  ahead.in_order = fetches_in_order();
  ahead.in_groups = header.codec == Codec::zvc_exp;
  ahead.rows = goes_on ? ahead.rows - rows_of_block : ahead.in_order ? rows_in_order : Ahead().rows;
  ahead.block = block.data();
  ahead.block_bytes = block.size();
  ahead.next = after.data();
  ahead.next_bytes = after.size();
}

Compressed compress(std::span<const std::byte> content, std::span<std::byte> frame,
                    const FrameOptions& options, Workspace& workspace, CodecSet codecs, const Kernels& with) {
  auto [error, codec, header] = begin_frame(content, frame, options, codecs);
  if (error != FrameError::none) return {error};
  const auto put = content.size() > streamed_above ? put_all_past : put_all;
  const Compressed payload = put(with, *codec, content, frame.data(), header, workspace);
  if (payload.error != FrameError::none) return {payload.error};
  header.payload_bytes = payload.bytes;
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
  if (codec->can_decode != nullptr && !codec->can_decode()) return FrameError::codec_failed;
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
  workspace.past_caches = content.size() > streamed_above;
  for (std::uint64_t i = 0; error == FrameError::none && i < header.blocks(); ++i)
    error = decompress_block(frame, header, i, content.subspan(i * block_bytes, header.content_of(i)),
                             workspace, codecs, with);
  workspace.past_caches = false;
  with.fence();
  return error;
}

}  // namespace terrace::compression
