// One block of at most 64 KiB by one CTA: read it, find its kind by the rules of docs/formats/frame.md, code
// it in shared memory, tell how large it is, and hand over the extent.
#pragma once

#include "compression/cuda/batch.cuh"
#include "compression/cuda/encode/csr8_encode.cuh"
#include "compression/cuda/encode/rle_encode.cuh"
#include "compression/cuda/encode/zvc_exp_encode.cuh"
#include "compression/cuda/xxh3.cuh"

namespace terrace::compression::cuda {

// A short mask ends where the whole one did, so that the values stay. It begins at a multiple of 16, so
// both may end 8 bytes further on.
constexpr TERRACE_DEVICE u32 shift_of_short(u32 words, u32 short_bytes) {
  return rounded_up(8 * words - short_bytes, static_cast<u32>(payload_unit));
}

// Where the extent of a full block ends at most, counted from the front: with a short mask it begins later.
// Groups' headers count as well: with them, other blocks are those that are almost as long as their content.
constexpr TERRACE_DEVICE u32 furthest_end(u32 width) {
  constexpr u32 unit = payload_unit;
  const u32 headers = u32{block_bytes} / width / group_elements * group_header_bytes;
  u32 furthest = block_bytes;
  for (u32 words = block_bytes / width / 64, empty = 0; empty <= words; ++empty) {
    const u32 mask = 8 * (ceil_div(words, 64) + words - empty);
    if (mask >= 8 * words) continue;
    const u32 bytes = mask + headers + (words - empty) * 64 * width;
    const u32 extent = bytes < block_bytes ? rounded_up(bytes, unit) : block_bytes;
    if (shift_of_short(words, mask) + extent > furthest) furthest = shift_of_short(words, mask) + extent;
  }
  return furthest;
}

// In front of the elements there is room for the longest mask and headers, and never less than for XXH3's
// sums: while an extent over the elements is checksummed they lie there, else behind the extent.
template <u32 width>
inline constexpr u32 mask_and_headers =
    block_bytes / width / 8 + block_bytes / width / group_elements* group_header_bytes + payload_unit;
template <u32 width>
inline constexpr u32 sums_and_shift = sum_words * 8 + furthest_end(width) - u32{block_bytes};
template <u32 width>
inline constexpr u32 front_bytes =
    mask_and_headers<width> > sums_and_shift<width> ? mask_and_headers<width> : sums_and_shift<width>;
inline constexpr u32 most_front_bytes = front_bytes<1>;
static_assert(front_bytes<1> >= front_bytes<2> && front_bytes<1> >= front_bytes<4> &&
              front_bytes<1> >= front_bytes<8>);
// The sums that coded_extent() puts at the buffer's end.
template <u32 width>
inline constexpr bool sums_lie_behind =
    furthest_end(width) <= front_bytes<width> + u32{block_bytes} - sum_words * 8;
static_assert(sums_lie_behind<1> && sums_lie_behind<2> && sums_lie_behind<4> && sums_lie_behind<8>);

// What pack_values_up() needs behind the elements.
inline constexpr u32 room_behind = payload_unit;

// 76.8 KB: three CTAs fit on a multiprocessor of 228 KB, less 1 KB each that the device keeps.
struct EncodeShared {
  u64 secret[secret_words];
  u64 summary[most_summary_words];  // also the warps' totals
  u32 mailbox[4];
  Groups groups;
  u16 base[most_words];
  alignas(16) u8 buffer[most_front_bytes + block_bytes + room_behind];
};
static_assert(sizeof(EncodeShared) <= 228 * 1024 / 3 - 1024);
static_assert(sizeof(EncodeShared::summary) >= most_warps * sizeof(u32));

// Begins and room as places in the buffer, not pointers: so the compiler knows that it reads shared memory.
struct Extent {
  u32 begin;
  u32 bytes;   // of the block
  u32 extent;  // with padding
  BlockKind kind;
  u32 sums;  // room for XXH3's
  TERRACE_DEVICE u32 units() const { return ceil_div(extent, payload_unit); }
};

template <typename T>
TERRACE_DEVICE T* in_shared(u8* at) {
  return static_cast<T*>(static_cast<void*>(at));
}

// Content into shared memory: 16 bytes at once where its address allows. Zeros follow up to a whole chunk.
// Ends with a barrier.
TERRACE_DEVICE void read_block(u8* to, const u8* from, u32 bytes) {
  const u32 vectors = is_aligned16(from) ? bytes / 16 : 0;
  TERRACE_UNROLL_BY(4)
  for (u32 i = simt::thread_index(); i < vectors; i += simt::thread_count())
    simt::copy_async16(to + 16 * i, from + 16 * i);
  for (u32 i = vectors * 16 + simt::thread_index(); i < bytes; i += simt::thread_count()) to[i] = from[i];
  for (u32 i = bytes + simt::thread_index(); i < rounded_up(bytes, chunk_bytes); i += simt::thread_count())
    to[i] = 0;
  simt::wait_copies();
  simt::sync_cta();
}

// A block and what its mask says.
template <typename T>
struct Encoder {
  EncodeShared& shared;
  u32 element;
  u32 elements;
  MaskScan scan;
  RunScan runs;  // rle only

  TERRACE_DEVICE u8* front() const { return shared.buffer; }
  TERRACE_DEVICE u8* content() const { return shared.buffer + front_bytes<sizeof(T)>; }
  TERRACE_DEVICE u32 bytes() const { return elements * static_cast<u32>(sizeof(T)); }
  TERRACE_DEVICE u32 words() const { return ceil_div(elements, 64); }
  TERRACE_DEVICE u32 groups() const { return ceil_div(elements, group_elements); }
  TERRACE_DEVICE u32 short_mask_bytes() const { return 8 * (ceil_div(words(), 64) + scan.nonzero_words); }
  TERRACE_DEVICE bool is_short() const { return short_mask_bytes() < 8 * words(); }
  TERRACE_DEVICE u32 mask_bytes() const { return is_short() ? short_mask_bytes() : 8 * words(); }
  // Where the mask begins in the end, from the front.
  TERRACE_DEVICE u32 mask_begin() const {
    return is_short() ? shift_of_short(words(), short_mask_bytes()) : 0;
  }
  TERRACE_DEVICE Unpacked<T> unpacked() const {
    return {static_cast<const T*>(static_cast<const void*>(content())), elements, mask(), shared.base};
  }
  TERRACE_DEVICE const u64* mask() const {
    return static_cast<const u64*>(static_cast<const void*>(front()));
  }
  TERRACE_DEVICE MaskView mask_view() const { return {mask(), elements}; }
  TERRACE_DEVICE u32* of_warp() const { return reinterpret_cast<u32*>(shared.summary); }
  TERRACE_DEVICE ValueShape shape() const { return value_shape<T>(element); }
};

template <typename T>
TERRACE_DEVICE Extent raw_extent(const Encoder<T>& encoder) {
  return {front_bytes<sizeof(T)>, encoder.bytes(), encoder.bytes(), BlockKind::raw, 0};
}

// Sums lie at the buffer's end: a coded extent is shorter than its content, and front_bytes has room for
// them.
template <typename T>
TERRACE_DEVICE Extent coded_extent(const Encoder<T>& encoder, BlockKind kind, u32 bytes) {
  constexpr u32 end = front_bytes<sizeof(T)> + u32{block_bytes};
  return {kind == BlockKind::sparse ? encoder.mask_begin() : 0, bytes, rounded_up(bytes, payload_unit), kind,
          end - sum_words * 8};
}

// At the buffer's end, over the elements, as pack_values_up() leaves it.
template <typename T>
TERRACE_DEVICE Extent upper_extent(u32 bytes) {
  constexpr u32 end = front_bytes<sizeof(T)> + u32{block_bytes} + room_behind;
  const u32 extent = rounded_up(bytes, payload_unit);
  return {end - extent, bytes, extent, BlockKind::coded, 0};
}

template <typename T>
TERRACE_DEVICE Extent repeat_extent(const Encoder<T>& encoder) {
  if (simt::thread_index() < payload_unit / sizeof(T))
    in_shared<T>(encoder.front())[simt::thread_index()] = in_shared<T>(encoder.content())[0];
  return coded_extent(encoder, BlockKind::repeat, payload_unit);
}

// Bytes that zvc_exp makes of the block; finds the groups' codes.
template <typename T>
TERRACE_DEVICE u32 zvc_exp_bytes(const Encoder<T>& encoder) {
  find_codes(in_shared<const T>(encoder.content()), encoder.elements, encoder.shared.base,
             encoder.scan.values, encoder.shape(), encoder.shared.groups);
  const u32 bits = place_groups(encoder.groups(), encoder.shared.groups.begin);
  return encoder.mask_bytes() + encoder.groups() * group_header_bytes + bits;
}

// Bytes that the codec makes of the block. For rle this finds the runs.
template <typename T>
TERRACE_DEVICE u32 coded_bytes(Encoder<T>& encoder, Codec codec) {
  const u32 packed = encoder.scan.values * static_cast<u32>(sizeof(T));
  switch (codec) {
    case Codec::zvc_exp:
      return zvc_exp_bytes(encoder);
    case Codec::rle:
      encoder.runs = scan_runs(encoder.mask_view(), encoder.of_warp());
      return rle_values_offset(encoder.runs.pairs) + packed;
    case Codec::csr8:
      return csr8_layout(encoder.elements, encoder.scan.values).values + packed;
    default:
      return encoder.mask_bytes() + packed;
  }
}

// Whether what describes the mask may be longer than the room in front of the elements, so that the values
// are packed up, not down.
TERRACE_DEVICE bool packs_up(Codec codec) { return codec == Codec::rle || codec == Codec::csr8; }

// Rules 1 to 5, without writing anything: the extent that will be.
template <typename T>
TERRACE_DEVICE Extent decide(Encoder<T>& encoder, Codec codec) {
  if (encoder.scan.values == 0) return coded_extent(encoder, BlockKind::zero, 0);
  if (encoder.scan.all_equal && encoder.bytes() > payload_unit) return repeat_extent(encoder);
  if (codec == Codec::raw) return raw_extent(encoder);
  if (codec != Codec::zvc_exp && encoder.bytes() == block_bytes &&
      is_dense<T>(encoder.mask(), encoder.words()))
    return raw_extent(encoder);
  const u32 bytes = coded_bytes(encoder, codec);
  if (rounded_up(bytes, payload_unit) >= encoder.bytes()) return raw_extent(encoder);
  if (packs_up(codec)) return upper_extent<T>(bytes);
  return coded_extent(encoder, encoder.is_short() ? BlockKind::sparse : BlockKind::coded, bytes);
}

// Headers and bits of zvc_exp, instead of the packed values behind the room for its headers.
template <typename T>
TERRACE_DEVICE void squeeze_values(const Encoder<T>& encoder, const u8* values, u8* to) {
  simt::sync_cta();
  squeeze_groups(static_cast<const T*>(static_cast<const void*>(values)), encoder.elements,
                 encoder.shared.base, encoder.scan.values, encoder.shape(), encoder.shared.groups, to);
}

// The values behind the whole mask, or behind where its short form will end.
template <typename T>
TERRACE_DEVICE void write_masked(const Encoder<T>& encoder, bool exp) {
  u8* mask = encoder.front() + encoder.mask_begin();
  u8* behind_mask = mask + encoder.mask_bytes();
  u8* values = behind_mask + (exp ? rounded_up(encoder.groups() * group_header_bytes, 8) : 0);
  pack_values(encoder.unpacked(), in_shared<T>(values));
  if (exp) squeeze_values(encoder, values, behind_mask);
  if (encoder.is_short())
    shorten_mask(encoder.mask(), encoder.words(), encoder.shared.summary, in_shared<u64>(mask));
  simt::sync_cta();
}

// Rle and csr8: the values, then what describes the mask, over what were the elements.
template <typename T>
TERRACE_DEVICE void write_described(const Encoder<T>& encoder, const Extent& extent, Codec codec) {
  const u32 packed = encoder.scan.values * static_cast<u32>(sizeof(T));
  u8* to = encoder.front() + extent.begin;
  pack_values_up(encoder.unpacked(), in_shared<T>(to + extent.bytes - packed));
  simt::sync_cta();
  if (codec == Codec::rle)
    write_pairs(encoder.mask_view(), encoder.runs, to);
  else
    write_rows(encoder.mask(), encoder.elements, encoder.shared.base, encoder.scan.values, to);
}

// Writes what was decided on, for the kinds that a codec makes. A barrier has to follow.
template <typename T>
TERRACE_DEVICE void write_coded(const Encoder<T>& encoder, const Extent& extent, Codec codec) {
  if (packs_up(codec))
    write_described(encoder, extent, codec);
  else
    write_masked(encoder, codec == Codec::zvc_exp);
  const u32 padding = extent.bytes + simt::thread_index();
  if (padding < extent.extent) encoder.front()[extent.begin + padding] = 0;
}

}  // namespace terrace::compression::cuda
