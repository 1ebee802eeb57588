// A frame's table and header, by the CTA that finished the frame's last block. The table is put together in
// the caller's scratch memory and written once, in whole lines: the frame may lie across a link.
#pragma once

#include "compression/cuda/batch.cuh"
#include "compression/cuda/xxh3.cuh"

namespace terrace::compression::cuda {

// The bytes from 64 to the payload offset.
struct TableWords {
  const StoredEntry* entries;
  u32 blocks;

  TERRACE_DEVICE u64 operator()(u32 i) const {
    return i < 2 * blocks ? simt::load_written(reinterpret_cast<const u64*>(entries) + i) : 0;
  }
};

TERRACE_DEVICE void write_table(const TableWords& words, u64 bytes, u8* to) {
  auto* vectors = reinterpret_cast<Vector*>(to);
  TERRACE_UNROLL_BY(4)
  for (u32 i = simt::thread_index(); i < bytes / 16; i += simt::thread_count())
    vectors[i] = {words(2 * i), words(2 * i + 1)};
}

// Where the last extent ends.
TERRACE_DEVICE u64 payload_end(const TableWords& words) {
  if (words.blocks == 0) return 0;
  const u64 last = words(2 * words.blocks - 1);
  const u32 kind = static_cast<u32>(last >> 56), bytes = static_cast<u32>(last >> 32) & 0xffffff;
  const bool padded = kind != static_cast<u32>(BlockKind::raw);
  return u64{static_cast<u32>(last)} * payload_unit + (padded ? rounded_up(bytes, payload_unit) : bytes);
}

TERRACE_DEVICE u64 first_header_word(const Source& source) {
  return frame_magic | u64{frame_version} << 32 | u64{static_cast<u8>(source.codec)} << 40 |
         u64{static_cast<u8>(source.element)} << 48 | u64{source.alignment_log2} << 56;
}

// By one thread. `header` is shared memory of the header's size.
TERRACE_DEVICE void write_header(const Source& source, u64 payload_bytes, u64 payload_offset,
                                 u64 table_checksum, const u64* secret, u64* header) {
  header[0] = first_header_word(source);
  header[1] = source.content_bytes;
  header[2] = payload_bytes;
  header[3] = payload_offset;
  header[4] = table_checksum;
  header[5] = header[6] = 0;
  header[7] = xxh3_short(SharedWords{header}, 56, secret);
  auto* to = static_cast<u64*>(source.frame);
  for (u32 i = 0; i < header_bytes / 8; ++i) to[i] = header[i];
}

// By all threads. `sums` is shared memory for XXH3, `header` for a header.
TERRACE_DEVICE void finish_frame(const Work<Source>& work, u32 i, const u64* secret, u64* sums, u64* header) {
  const Source& source = work.tensors[i];
  const u32 blocks = blocks_of(source.content_bytes);
  const TableWords words{work.scratch.entries + source.first_block, blocks};
  const u64 offset = payload_offset_of(blocks, source.alignment_log2);
  const u32 table_bytes = static_cast<u32>(offset - header_bytes);
  write_table(words, table_bytes, static_cast<u8*>(source.frame) + header_bytes);
  const u64 checksum = xxh3(words, table_bytes, secret, sums);
  if (simt::thread_index() != 0) return;
  const u64 payload_bytes = payload_end(words);
  write_header(source, payload_bytes, offset, checksum, secret, header);
  report(work, i, {offset + payload_bytes, FrameError::none});
}

}  // namespace terrace::compression::cuda
