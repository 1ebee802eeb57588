// One block decoded by one CTA, from an extent in shared memory that may be any bytes: every size is checked
// before what it bounds is read, and the verdicts are those of decode_block() of block.cpp. All functions
// that return bool return the same in all threads.
#pragma once

#include "compression/cuda/decode/check_frame.cuh"
#include "compression/cuda/exp_code.cuh"

namespace terrace::compression::cuda {

// XXH3's sums are done with before the mask is read, so both share their memory. Behind the extent there are
// 16 bytes that may be read with the bits of the last value.
struct DecodeShared {
  u64 secret[secret_words];
  StoredEntry entry;
  u32 mailbox[4];
  u32 of_warp[most_warps];
  u32 group_headers[most_groups];
  u32 group_begin[most_groups];
  u16 base[most_words];
  union {
    u64 sums[sum_words];
    u64 mask[most_words];
    u32 half_words[2 * most_words];  // of the mask, for what is put into it bit by bit
  };
  alignas(16) u8 extent[block_bytes + 16];
};
static_assert(sizeof(DecodeShared) <= 228 * 1024 / 3 - 1024);

// Where a block's content goes.
struct Destination {
  u8* content;
  u32 bytes;
  TERRACE_DEVICE bool is_aligned() const { return is_aligned16(content); }
};

// Writes the content, 16 bytes a thread where its address allows, from a function of the vector's number.
template <typename Make>
TERRACE_DEVICE void write_content(const Destination& to, const Make& make) {
  const u32 whole = to.is_aligned() ? to.bytes / 16 : 0;
  for (u32 i = simt::thread_index(); i < whole; i += simt::thread_count())
    reinterpret_cast<Vector*>(to.content)[i] = make(i);
  const u32 left = whole / simt::thread_count() * simt::thread_count();  // a thread stays at its place
  for (u32 i = left + simt::thread_index(); i * 16 < to.bytes; i += simt::thread_count()) {
    if (i < whole) continue;
    const Vector vector = make(i);
    for (u32 k = 0; k < 16 && i * 16 + k < to.bytes; ++k)
      to.content[i * 16 + k] = static_cast<u8>((k < 8 ? vector.low : vector.high) >> (k % 8 * 8));
  }
}

TERRACE_DEVICE void read_extent(const u8* from, u32 bytes, u8* to) {
  const u32 vectors = bytes / 16;
  TERRACE_UNROLL_BY(4)
  for (u32 i = simt::thread_index(); i < vectors; i += simt::thread_count())
    simt::copy_async16(to + 16 * i, from + 16 * i);
  for (u32 i = vectors * 16 + simt::thread_index(); i < bytes; i += simt::thread_count()) to[i] = from[i];
  simt::wait_copies();
  simt::sync_cta();
}

TERRACE_DEVICE bool has_checksum(u32 bytes, u64 expected, DecodeShared& shared) {
  const SharedWords words{reinterpret_cast<const u64*>(shared.extent)};
  sums_for_xxh3(words, bytes, shared.secret, shared.sums);
  simt::sync_cta();
  bool equal = true;
  if (warp_index() == 0) equal = xxh3_from_sums(words, bytes, shared.secret, shared.sums) == expected;
  return simt::all_in_cta(equal);
}

TERRACE_DEVICE bool is_padding_zero(const DecodeShared& shared, u32 bytes) {
  const u32 at = bytes + simt::thread_index();
  return simt::all_in_cta(at >= rounded_up(bytes, payload_unit) || shared.extent[at] == 0);
}

TERRACE_DEVICE bool decode_repeat(const DecodeShared& shared, u32 width, const Destination& to) {
  const u32 at = simt::thread_index();
  const bool periodic = at < width || at >= payload_unit || shared.extent[at] == shared.extent[at - width];
  if (!simt::all_in_cta(periodic)) return false;
  const Vector vector = *reinterpret_cast<const Vector*>(shared.extent);
  write_content(to, [&](u32) { return vector; });
  return true;
}

// The mask out of its short form; returns the bytes read, 0 where it contradicts itself.
TERRACE_DEVICE u32 read_short_mask(DecodeShared& shared, u32 bytes, u32 words) {
  const auto* summary = reinterpret_cast<const u64*>(shared.extent);
  const u32 summary_words = ceil_div(words, 64);
  if (bytes < summary_words * 8) return 0;
  const u64 last = summary[summary_words - 1];
  const u32 present = rank_of_word(summary, words - 1) + (last >> ((words - 1) % 64) & 1);
  const bool ends_clean = words % 64 == 0 || last >> words % 64 == 0;
  if (!ends_clean || bytes < (summary_words + present) * 8) return 0;
  bool sound = true;
  for (u32 w = simt::thread_index(); w < words; w += simt::thread_count()) {
    const bool here = (summary[w / 64] >> w % 64 & 1) != 0;
    shared.mask[w] = here ? summary[summary_words + rank_of_word(summary, w)] : 0;
    sound = sound && (!here || shared.mask[w] != 0);
  }
  return simt::all_in_cta(sound) ? (summary_words + present) * 8 : 0;
}

TERRACE_DEVICE u32 read_whole_mask(DecodeShared& shared, u32 bytes, u32 words) {
  if (bytes < words * 8) return 0;
  const auto* from = reinterpret_cast<const u64*>(shared.extent);
  for (u32 w = simt::thread_index(); w < words; w += simt::thread_count()) shared.mask[w] = from[w];
  simt::sync_cta();
  return words * 8;
}

// Either form, checked; 0 where it is wrong.
TERRACE_DEVICE u32 read_mask(DecodeShared& shared, bool is_short, u32 bytes, u32 elements) {
  const u32 words = ceil_div(elements, 64);
  const u32 read = is_short ? read_short_mask(shared, bytes, words) : read_whole_mask(shared, bytes, words);
  if (read == 0) return 0;
  return elements % 64 == 0 || shared.mask[words - 1] >> elements % 64 == 0 ? read : 0;
}

// base[i] of i < n: the sum of value(k) for all k < i; returns that of all. Begins after a barrier, ends with
// one. Where the sum is 2^16 or more, base[] is not of use.
template <typename Value>
TERRACE_DEVICE u32 sum_before(DecodeShared& shared, u32 n, const Value& value) {
  const WordRange range = words_of_warp(n);
  u32 counted = 0;
  for (u32 begin = range.begin; begin < range.end; begin += warp_lanes) {
    const u32 i = begin + lane_index();
    const u32 mine = i < range.end ? value(i) : 0, below = exclusive_sum(mine);
    if (i < range.end) shared.base[i] = static_cast<u16>(counted + below);
    counted += simt::shuffle(below + mine, warp_lanes - 1);
  }
  if (lane_index() == 0) shared.of_warp[warp_index()] = counted;
  simt::sync_cta();
  const Totals totals = sum_over_warps(shared.of_warp);
  shift_bases(shared.base, range, totals.before);
  simt::sync_cta();
  return totals.all;
}

// base[] of a mask in shared memory; returns the number of its bits. Ends with a barrier.
TERRACE_DEVICE u32 count_values(DecodeShared& shared, u32 words) {
  return sum_before(shared, words, [&](u32 w) { return simt::bits_in(shared.mask[w]); });
}

// A barrier has to follow.
TERRACE_DEVICE void clear_mask(DecodeShared& shared, u32 words) {
  for (u32 w = simt::thread_index(); w < words; w += simt::thread_count()) shared.mask[w] = 0;
}

// A vector with the next values where `bits` has ones.
template <typename T, typename Values>
TERRACE_DEVICE Vector expand_vector(u32 bits, Values values) {
  constexpr u32 each = 16 / sizeof(T), width = 8 * sizeof(T), part_bits = width < 32 ? 32 : width;
  Wide<T> parts[128 / part_bits] = {};
  TERRACE_UNROLL
  for (u32 k = 0; k < each; ++k) {
    const bool here = (bits >> k & 1) != 0;
    parts[k * width / part_bits] |= (here ? Wide<T>{values.first()} : 0) << k * width % part_bits;
    if (here) values.skip();
  }
  if constexpr (width == 64)
    return {parts[0], parts[1]};
  else
    return {simt::joined(parts[0], parts[1]), simt::joined(parts[2], parts[3])};
}

// Elements where the mask has bits: values_from(rank, element) are those from a rank on, up to the end of a
// vector that begins with the element. A thread's vectors lie at the same place in their words of the mask,
// as the CTA takes whole words.
template <typename T, typename ValuesFrom>
TERRACE_DEVICE void expand(const DecodeShared& shared, const Destination& to, const ValuesFrom& values_from) {
  constexpr u32 each = 16 / sizeof(T);
  static_assert(128 * each % 64 == 0);
  const u32 bit = simt::thread_index() * each % 64;
  const u64 below = bits_before(~u64{0}, bit);
  const auto make = [&](u32 i) {
    const u32 element = i * each;
    const u64 word = shared.mask[element / 64];
    const u32 rank = shared.base[element / 64] + simt::bits_in(word & below);
    return expand_vector<T>(static_cast<u32>(word >> bit), values_from(rank, element));
  };
  write_content(to, make);
}

// Values as they are.
template <typename T>
struct PackedValues {
  const T* at;
  TERRACE_DEVICE T first() const { return *at; }
  TERRACE_DEVICE void skip() { ++at; }
};

// Zvc, rle and csr8: behind `begin` bytes that said what the mask is, its values and no more.
template <typename T>
TERRACE_DEVICE bool decode_values(DecodeShared& shared, u32 begin, u32 bytes, const Destination& to) {
  const u32 words = ceil_div(to.bytes, 64 * sizeof(T));
  const u32 values = count_values(shared, words);
  if (bytes - begin != values * sizeof(T)) return false;
  const auto* packed = reinterpret_cast<const T*>(shared.extent + begin);
  expand<T>(shared, to, [&](u32 rank, u32) { return PackedValues<T>{packed + rank}; });
  return true;
}

// One group's header and, in group_begin, its bytes.
TERRACE_DEVICE bool read_group(DecodeShared& shared, const u32* headers, u32 group, u32 count,
                               ValueShape shape) {
  const u32 header = headers[group];
  shared.group_headers[group] = header;
  shared.group_begin[group] = ceil_div(count * code_of_header(header).bits(shape.mantissa_bits), 8);
  return is_valid_header(header, shape, count);
}

TERRACE_DEVICE u32 values_in_group(const DecodeShared& shared, u32 words, u32 values, u32 group) {
  const u32 next = (group + 1) * group_words;
  return (next < words ? shared.base[next] : values) - shared.base[group * group_words];
}

// group_begin[] from the groups' bytes; returns their sum. By the first warp.
TERRACE_DEVICE u32 sum_groups(u32* begin, u32 groups) {
  const u32 even = 2 * lane_index(), odd = even + 1;
  const u32 first = even < groups ? begin[even] : 0, second = odd < groups ? begin[odd] : 0;
  const u32 before = exclusive_sum(first + second);
  if (even < groups) begin[even] = before;
  if (odd < groups) begin[odd] = before + first;
  return simt::shuffle(before + first + second, warp_lanes - 1);
}

// Headers sound, and their bytes exactly what is there.
TERRACE_DEVICE bool read_groups(DecodeShared& shared, const u32* headers, u32 words, u32 values,
                                u32 bits_bytes, ValueShape shape) {
  const u32 groups = ceil_div(words, group_words), group = simt::thread_index();
  bool sound = true;
  if (group < groups)
    sound = read_group(shared, headers, group, values_in_group(shared, words, values, group), shape);
  if (!simt::all_in_cta(sound)) return false;
  if (warp_index() == 0) sound = sum_groups(shared.group_begin, groups) == bits_bytes;
  return simt::all_in_cta(sound);
}

// 64 bits from any bit on; those behind the extent are whatever follows it.
TERRACE_DEVICE u64 at_bit(const u64* words, u32 bit) {
  const u32 shift = bit % 64;
  const u64 low = words[bit / 64] >> shift;
  return shift == 0 ? low : low | words[bit / 64 + 1] << (64 - shift);
}

// Values of a group.
template <typename T>
struct SqueezedValues {
  const u64* words;
  u32 bit;
  ExpCode code;
  ValueShape shape;
  TERRACE_DEVICE T first() const { return unsqueezed<T>(at_bit(words, bit), code, shape); }
  TERRACE_DEVICE void skip() { bit += code.bits(shape.mantissa_bits); }
};

template <typename T>
TERRACE_DEVICE bool decode_zvc_exp(DecodeShared& shared, u32 element, u32 mask_bytes, u32 bytes,
                                   const Destination& to) {
  const u32 words = ceil_div(to.bytes, 64 * sizeof(T)), groups = ceil_div(words, group_words);
  const u32 values = count_values(shared, words), headers_bytes = groups * group_header_bytes;
  const ValueShape shape = value_shape<T>(element);
  if (bytes - mask_bytes < headers_bytes) return false;
  const auto* headers = reinterpret_cast<const u32*>(shared.extent + mask_bytes);
  if (!read_groups(shared, headers, words, values, bytes - mask_bytes - headers_bytes, shape)) return false;
  const auto* extent = reinterpret_cast<const u64*>(shared.extent);
  expand<T>(shared, to, [&](u32 rank, u32 at) {
    const u32 group = at / group_elements;
    const ExpCode code = code_of_header(shared.group_headers[group]);
    const u32 bit = (mask_bytes + headers_bytes + shared.group_begin[group]) * 8 +
                    (rank - shared.base[group * group_words]) * code.bits(shape.mantissa_bits);
    return SqueezedValues<T>{extent, bit, code, shape};
  });
  return true;
}

}  // namespace terrace::compression::cuda
