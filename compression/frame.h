// The frame: how a compressed tensor lies in memory and on disk. In prose, with a worked example, in
// docs/formats/frame.md; this file is the same in code.
//
//   ┌────────┬─────────────────────┬ ─ ─ ─ ┬─────────┬─────────┬─────────┬─
//   │ header │ entry 0 │ entry 1 │…  zeros  │ block 0 │ block 1 │ block 2 │…
//   └────────┴─────────────────────┴ ─ ─ ─ ┴─────────┴─────────┴─────────┴─
//   0        64                              payload_offset
//
// Every block stands for 64 KiB of content (the last one for what is left) and decodes alone. The size of a
// frame is at most frame_bound(content): the content, 64 bytes, and 16 bytes for every block, and what
// aligning the payload takes. All integers are little-endian. Whatever comes out of read_header() or
// read_entry() has been checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/base/element.h"
#include "compression/codec.h"

namespace terrace::compression {

inline constexpr std::uint32_t frame_magic = 0x31465254;  // "TRF1" in memory
inline constexpr std::uint8_t frame_version = 1;
inline constexpr std::size_t header_bytes = 64;
inline constexpr std::size_t entry_bytes = 16;
inline constexpr std::size_t block_bytes = std::size_t{64} * 1024;
inline constexpr std::size_t payload_unit = 16;  // blocks begin at multiples of it from payload_offset
// A frame's content is at most what 32-bit offsets in units of 16 bytes reach: 64 GiB.
inline constexpr std::uint64_t max_content_bytes = std::uint64_t{1} << 36;

enum class BlockKind : std::uint8_t {
  zero = 0,    // every byte is zero; nothing in the payload
  raw = 1,     // the bytes as they are
  repeat = 2,  // one element, again and again: 16 bytes of it in the payload
  coded = 3,   // by the frame's codec
  sparse = 4,  // the same, its mask without the words that are zero (zvc, zvc_exp)
};

enum class FrameError : std::uint8_t {
  none = 0,
  truncated,        // the frame ends before its header, table or payload does
  not_a_frame,      // wrong magic
  unknown_version,  // written by a later version
  bad_header,       // its checksum is wrong, or a field out of range or reserved and not zero
  bad_table,        // the table's checksum is wrong, or an entry contradicts the one before
  bad_block,        // a block's checksum is wrong, or its content contradicts itself
  wrong_size,       // the destination is not exactly as large as the content
  codec_missing,    // the codec is known but not among those given
  bad_argument,     // an unaligned size, an unknown type: the caller's mistake
  too_small,        // compress: the destination is smaller than frame_bound()
  codec_failed,     // no memory for another library's codec, or the content changed while it was read
};

// What to tell a user: "the frame's block table is damaged".
const char* describe(FrameError error);

// Bytes 0-63 of a frame, checked.
//
//   0 magic 4      4 version 1    5 codec 1       6 element 1    7 log2 of the payload's alignment 1
//   8 content bytes 8            16 payload bytes 8
//  24 payload offset 8           32 XXH3 of the bytes from 64 to the payload offset 8
//  40 reserved, zero 16          56 XXH3 of the bytes 0-55 8
struct Header {
  Codec codec = Codec::raw;
  ElementType element = ElementType::u8;
  std::uint8_t alignment_log2 = 4;  // 4 to 21: the payload offset is a multiple of this
  std::uint64_t content_bytes = 0;
  std::uint64_t payload_bytes = 0;  // from payload_offset to the end of the last block
  std::uint64_t payload_offset = 0;

  std::uint64_t blocks() const { return (content_bytes + block_bytes - 1) / block_bytes; }
  std::uint64_t frame_bytes() const { return payload_offset + payload_bytes; }
  // Bytes of content that block i stands for.
  std::size_t content_of(std::uint64_t i) const {
    const std::uint64_t left = content_bytes - i * block_bytes;
    return left < block_bytes ? static_cast<std::size_t>(left) : block_bytes;
  }
};

// Bytes 64 + 16 i of a frame.
//
//   0 XXH3 of the block's extent 8 (0 for zero blocks)   8 offset in units of 16 bytes 4   12 kind << 24 |
//   bytes 4
//
// A block's extent is its bytes rounded up to 16 (the padding is zero), except for raw blocks, which are not
// padded. Extents follow each other without gaps.
struct Entry {
  std::uint64_t checksum = 0;
  std::uint32_t offset_units = 0;
  BlockKind kind = BlockKind::zero;
  std::uint32_t bytes = 0;

  std::uint64_t offset() const { return std::uint64_t{offset_units} * payload_unit; }
  std::size_t extent() const {
    return kind == BlockKind::raw ? bytes
                                  : (std::size_t{bytes} + payload_unit - 1) / payload_unit * payload_unit;
  }
};

// The largest a frame of so much content can get, for a payload aligned to 2^alignment_log2 bytes.
std::uint64_t frame_bound(std::uint64_t content_bytes, unsigned alignment_log2 = 4);

// Where the payload of such a frame begins.
std::uint64_t payload_offset_for(std::uint64_t content_bytes, unsigned alignment_log2);

// Checks the header alone: 64 bytes are enough. `header` stays untouched on failure.
FrameError read_header(std::span<const std::byte> frame, Header& header);
// Checks the table (and the gap behind it) against the header, each entry's kind, size and place.
FrameError check_table(std::span<const std::byte> frame, const Header& header);
// Entry i of a frame whose table has been checked.
Entry read_entry(std::span<const std::byte> frame, std::uint64_t i);

// Writing: the header is written last, when the table is complete.
void write_entry(std::byte* frame, std::uint64_t i, const Entry& entry);
void write_header(std::byte* frame, const Header& header);

}  // namespace terrace::compression
