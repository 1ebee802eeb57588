#include "compression/frame.h"

#include <algorithm>
#include <array>

#include "compression/base/bytes.h"
#include "compression/kernels/kernels.h"

namespace terrace::compression {
namespace {

constexpr unsigned min_alignment_log2 = 4, max_alignment_log2 = 21;

std::uint64_t checksum_of(const std::byte* data, std::size_t bytes) {
  return kernels().checksum(data, bytes);
}

FrameError check_fields(const Header& header) {
  const auto type = static_cast<int>(header.element);
  if (static_cast<int>(header.codec) >= codec_count || type >= element_type_count)
    return FrameError::bad_header;
  if (header.alignment_log2 < min_alignment_log2 || header.alignment_log2 > max_alignment_log2)
    return FrameError::bad_header;
  if (header.content_bytes > max_content_bytes || header.content_bytes % width_of(header.element) != 0)
    return FrameError::bad_header;
  const bool sizes_agree =
      header.payload_bytes <= header.content_bytes &&
      header.payload_offset == payload_offset_for(header.content_bytes, header.alignment_log2);
  return sizes_agree ? FrameError::none : FrameError::bad_header;
}

bool is_kind_of(const Entry& entry, Codec codec, std::size_t content) {
  switch (entry.kind) {
    case BlockKind::zero:
      return entry.bytes == 0 && entry.checksum == 0;
    case BlockKind::raw:
      return entry.bytes == content;
    case BlockKind::repeat:
      return entry.bytes == payload_unit && content > payload_unit;
    case BlockKind::coded:
      return codec != Codec::raw && entry.bytes > 0 && entry.extent() < content;
    case BlockKind::sparse:
      return (codec == Codec::zvc || codec == Codec::zvc_exp) && entry.bytes > 0 && entry.extent() < content;
  }
  return false;
}

}  // namespace

const char* describe(FrameError error) {
  constexpr std::array<const char*, 12> texts = {
      "no error",
      "the frame ends too early",
      "this is not a compressed frame",
      "the frame is of a later version; read it with the release that wrote it",
      "the frame's header is damaged",
      "the frame's block table is damaged",
      "a block of the frame is damaged",
      "the destination is not as large as the frame's content",
      "the frame's codec is not part of this program",
      "the content's size is no multiple of its element's width, or above 64 GiB",
      "the destination is smaller than frame_bound()",
      "the codec had no memory to work in, or the content changed meanwhile",
  };
  return texts[static_cast<std::size_t>(error)];
}

std::uint64_t payload_offset_for(std::uint64_t content_bytes, unsigned alignment_log2) {
  const std::uint64_t blocks = (content_bytes + block_bytes - 1) / block_bytes;
  return round_up(header_bytes + entry_bytes * blocks, std::size_t{1} << alignment_log2);
}

std::uint64_t frame_bound(std::uint64_t content_bytes, unsigned alignment_log2) {
  return payload_offset_for(content_bytes, alignment_log2) + content_bytes;
}

FrameError read_header(std::span<const std::byte> frame, Header& header) {
  if (frame.size() < header_bytes) return FrameError::truncated;
  const std::byte* at = frame.data();
  if (load<std::uint32_t>(at) != frame_magic) return FrameError::not_a_frame;
  if (load<std::uint8_t>(at + 4) != frame_version) return FrameError::unknown_version;
  if (load<std::uint64_t>(at + 56) != checksum_of(at, 56)) return FrameError::bad_header;
  if (load<std::uint64_t>(at + 40) != 0 || load<std::uint64_t>(at + 48) != 0) return FrameError::bad_header;
  const Header read{.codec = load<Codec>(at + 5),
                    .element = load<ElementType>(at + 6),
                    .alignment_log2 = load<std::uint8_t>(at + 7),
                    .content_bytes = load<std::uint64_t>(at + 8),
                    .payload_bytes = load<std::uint64_t>(at + 16),
                    .payload_offset = load<std::uint64_t>(at + 24)};
  const FrameError error = check_fields(read);
  if (error == FrameError::none) header = read;
  return error;
}

FrameError check_table(std::span<const std::byte> frame, const Header& header) {
  if (frame.size() < header.payload_offset) return FrameError::truncated;
  const std::byte* table = frame.data() + header_bytes;
  const std::size_t bytes = header.payload_offset - header_bytes;
  if (load<std::uint64_t>(frame.data() + 32) != checksum_of(table, bytes)) return FrameError::bad_table;
  const std::size_t entries = header.blocks() * entry_bytes;
  if (!is_zero({table + entries, bytes - entries})) return FrameError::bad_table;
  std::uint64_t offset = 0, end = 0;
  for (std::uint64_t i = 0; i < header.blocks(); ++i) {
    const Entry entry = read_entry(frame, i);
    if (entry.offset() != offset || !is_kind_of(entry, header.codec, header.content_of(i)))
      return FrameError::bad_table;
    end = offset + entry.extent();
    offset = round_up(end, payload_unit);
  }
  return end == header.payload_bytes ? FrameError::none : FrameError::bad_table;
}

Entry read_entry(std::span<const std::byte> frame, std::uint64_t i) {
  const std::byte* at = frame.data() + header_bytes + i * entry_bytes;
  const auto kind_and_bytes = load<std::uint32_t>(at + 12);
  return {.checksum = load<std::uint64_t>(at),
          .offset_units = load<std::uint32_t>(at + 8),
          .kind = static_cast<BlockKind>(kind_and_bytes >> 24),
          .bytes = kind_and_bytes & 0xff'ffff};
}

void write_entry(std::byte* frame, std::uint64_t i, const Entry& entry) {
  std::byte* at = frame + header_bytes + i * entry_bytes;
  store(at, entry.checksum);
  store(at + 8, entry.offset_units);
  store(at + 12, static_cast<std::uint32_t>(entry.kind) << 24 | entry.bytes);
}

void write_header(std::byte* frame, const Header& header) {
  std::memset(frame, 0, header_bytes);
  store(frame, frame_magic);
  store(frame + 4, frame_version);
  store(frame + 5, header.codec);
  store(frame + 6, header.element);
  store(frame + 7, header.alignment_log2);
  store(frame + 8, header.content_bytes);
  store(frame + 16, header.payload_bytes);
  store(frame + 24, header.payload_offset);
  store(frame + 32, checksum_of(frame + header_bytes, header.payload_offset - header_bytes));
  store(frame + 56, checksum_of(frame, 56));
}

}  // namespace terrace::compression
