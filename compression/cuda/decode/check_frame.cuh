// A frame's header and table, by one CTA, with the CPU's verdicts in the CPU's order (frame.cpp, decompress()
// of compressor.cpp). Nothing is read beyond the frame's bytes, whatever they say.
#pragma once

#include "compression/cuda/batch.cuh"
#include "compression/cuda/masks.cuh"
#include "compression/cuda/xxh3.cuh"

namespace terrace::compression::cuda {

struct CheckShared {
  u64 secret[secret_words];
  u64 header[header_bytes / 8];
  u64 sums[sum_words];
  u32 of_warp[most_warps];
};

// A header's words, read once: whoever changes the frame meanwhile gets some verdict, but no access
// elsewhere.
struct HeaderWords {
  const u64* words;

  TERRACE_DEVICE u32 magic() const { return static_cast<u32>(words[0]); }
  TERRACE_DEVICE u32 version() const { return words[0] >> 32 & 0xff; }
  TERRACE_DEVICE u32 codec() const { return words[0] >> 40 & 0xff; }
  TERRACE_DEVICE u32 element() const { return words[0] >> 48 & 0xff; }
  TERRACE_DEVICE u32 alignment_log2() const { return static_cast<u32>(words[0] >> 56); }
  TERRACE_DEVICE u64 content_bytes() const { return words[1]; }
  TERRACE_DEVICE u64 payload_bytes() const { return words[2]; }
  TERRACE_DEVICE u64 payload_offset() const { return words[3]; }
  TERRACE_DEVICE u64 table_checksum() const { return words[4]; }
};

TERRACE_DEVICE bool are_fields_sound(HeaderWords header) {
  if (header.codec() >= codec_count || header.element() >= element_type_count) return false;
  if (header.alignment_log2() < 4 || header.alignment_log2() > 21) return false;
  if (header.content_bytes() > max_content_bytes ||
      header.content_bytes() % width_of_type(header.element()) != 0)
    return false;
  return header.payload_bytes() <= header.content_bytes() &&
         header.payload_offset() ==
             payload_offset_of(blocks_of(header.content_bytes()), header.alignment_log2());
}

TERRACE_DEVICE FrameError check_header(HeaderWords header, const u64* secret) {
  if (header.magic() != frame_magic) return FrameError::not_a_frame;
  if (header.version() != frame_version) return FrameError::unknown_version;
  if (header.words[7] != xxh3_short(SharedWords{header.words}, 56, secret)) return FrameError::bad_header;
  if (header.words[5] != 0 || header.words[6] != 0) return FrameError::bad_header;
  return are_fields_sound(header) ? FrameError::none : FrameError::bad_header;
}

struct EntryView {
  StoredEntry stored;
  TERRACE_DEVICE u32 kind() const { return stored.kind_and_bytes >> 24; }
  TERRACE_DEVICE u32 bytes() const { return stored.kind_and_bytes & 0xffffff; }
  TERRACE_DEVICE bool is(BlockKind other) const { return kind() == static_cast<u32>(other); }
  TERRACE_DEVICE u32 extent() const {
    return is(BlockKind::raw) ? bytes() : rounded_up(bytes(), payload_unit);
  }
  TERRACE_DEVICE u32 units() const { return ceil_div(bytes(), payload_unit); }
  TERRACE_DEVICE u64 offset() const { return u64{stored.offset_units} * payload_unit; }
};

TERRACE_DEVICE bool is_coded_entry(const EntryView& entry, u32 codec, u32 content) {
  const bool short_mask = entry.is(BlockKind::sparse);
  const bool has_mask = codec == static_cast<u32>(Codec::zvc) || codec == static_cast<u32>(Codec::zvc_exp);
  return (short_mask ? has_mask : codec != static_cast<u32>(Codec::raw)) && entry.bytes() > 0 &&
         entry.extent() < content;
}

// Whether a block of so much content can have such an entry.
TERRACE_DEVICE bool is_kind_sound(const EntryView& entry, u32 codec, u32 content) {
  switch (entry.kind()) {
    case static_cast<u32>(BlockKind::zero):
      return entry.bytes() == 0 && entry.stored.checksum == 0;
    case static_cast<u32>(BlockKind::raw):
      return entry.bytes() == content;
    case static_cast<u32>(BlockKind::repeat):
      return entry.bytes() == payload_unit && content > payload_unit;
    case static_cast<u32>(BlockKind::coded):
    case static_cast<u32>(BlockKind::sparse):
      return is_coded_entry(entry, codec, content);
    default:
      return false;
  }
}

inline constexpr u32 entries_at_once = 4;  // of a thread, so that their loads overlap

// Entries lie without gaps: each begins where the sum of those before it ends. A round of entries by all
// threads; returns whether they are sound, and adds their units to `before`.
TERRACE_DEVICE bool check_entries(const StoredEntry* entries, u32 first, u32 blocks, HeaderWords header,
                                  u64& before, u32* of_warp) {
  const u32 begin = first + simt::thread_index() * entries_at_once;
  EntryView held[entries_at_once];
  u32 units = 0;  // a wrong size cannot make a sum overflow: 2048 of 2^20 units
  TERRACE_UNROLL
  for (u32 k = 0; k < entries_at_once; ++k) {
    held[k] = EntryView{begin + k < blocks ? entries[begin + k] : StoredEntry{0, 0, 0}};
    units += held[k].units();
  }
  const u32 below = exclusive_sum(units), warps = warp_sum(units);
  if (lane_index() == 0) of_warp[warp_index()] = warps;
  simt::sync_cta();
  const Totals totals = sum_over_warps(of_warp);
  u64 offset = before + totals.before + below;
  bool sound = true;
  TERRACE_UNROLL
  for (u32 k = 0; k < entries_at_once; ++k) {
    const EntryView& entry = held[k];
    if (begin + k >= blocks) continue;
    sound = sound && entry.stored.offset_units == offset &&
            is_kind_sound(entry, header.codec(), content_of_block(header.content_bytes(), begin + k));
    if (begin + k + 1 == blocks) sound = sound && entry.offset() + entry.extent() == header.payload_bytes();
    offset += entry.units();
  }
  before += totals.all;
  return simt::all_in_cta(sound);
}

TERRACE_DEVICE bool is_gap_zero(const u64* table, u32 begin, u32 end) {
  bool zero = true;
  for (u32 i = begin + simt::thread_index(); i < end; i += simt::thread_count()) zero = zero && table[i] == 0;
  return simt::all_in_cta(zero);
}

// By all threads; the frame has at least payload_offset bytes.
TERRACE_DEVICE bool is_table_sound(const u8* frame, HeaderWords header, CheckShared& shared) {
  const auto* table = reinterpret_cast<const u64*>(frame + header_bytes);
  const u32 bytes = static_cast<u32>(header.payload_offset() - header_bytes);
  const u32 blocks = blocks_of(header.content_bytes());
  const u64 checksum = xxh3(SharedWords{table}, bytes, shared.secret, shared.sums);
  if (!simt::all_in_cta(warp_index() != 0 || checksum == header.table_checksum())) return false;
  if (!is_gap_zero(table, 2 * blocks, bytes / 8)) return false;
  u64 units = 0;
  for (u32 first = 0; first < blocks; first += simt::thread_count() * entries_at_once)
    if (!check_entries(reinterpret_cast<const StoredEntry*>(table), first, blocks, header, units,
                       shared.of_warp))
      return false;
  return blocks > 0 || header.payload_bytes() == 0;
}

TERRACE_DEVICE bool is_element_aligned(const void* content, u32 element) {
  return reinterpret_cast<std::uintptr_t>(content) % width_of_type(element) == 0;
}

// By all threads. Leaves the header in shared.header.
TERRACE_DEVICE FrameError check_frame(const Target& target, CheckShared& shared) {
  if (!is_aligned16(target.frame)) return FrameError::bad_argument;
  if (target.frame_bytes < header_bytes) return FrameError::truncated;
  const auto* frame = static_cast<const u8*>(target.frame);
  if (simt::thread_index() < header_bytes / 8)
    shared.header[simt::thread_index()] = reinterpret_cast<const u64*>(frame)[simt::thread_index()];
  simt::sync_cta();
  const HeaderWords header{shared.header};
  const FrameError error = check_header(header, shared.secret);
  if (error != FrameError::none) return error;
  if (target.content_bytes != header.content_bytes()) return FrameError::wrong_size;
  if (target.frame_bytes < header.payload_offset() + header.payload_bytes()) return FrameError::truncated;
  if (!is_table_sound(frame, header, shared)) return FrameError::bad_table;
  if (header.content_bytes() > 0 && header.codec() > static_cast<u32>(Codec::csr8))
    return FrameError::codec_missing;
  return is_element_aligned(target.content, header.element()) ? FrameError::none : FrameError::bad_argument;
}

}  // namespace terrace::compression::cuda
