// zvc_exp on one block in shared memory: a header for each group of 1024 elements, then, in place, the packed
// values of zvc turned into the groups' bits.
//
// What is written for a group never reaches beyond its own values: a value takes at most its width. Within a
// group the CTA takes rounds of values, a multiple of 32 each, so that a round's bits fill whole 32-bit
// words; every thread collects the bits of its words from the values there, and after a barrier all write.
#pragma once

#include "compression/cuda/encode/zvc_encode.cuh"
#include "compression/cuda/exp_code.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 squeezed_words = 4;  // that a thread collects in a round

// The groups of one block.
struct Groups {
  u32 headers[most_groups];
  u16 begin[most_groups];  // of each one's bytes, behind the headers
};

TERRACE_DEVICE u32 values_before_group(const u16* base, u32 words, u32 values, u32 group) {
  return group * group_words < words ? base[group * group_words] : values;
}
TERRACE_DEVICE u32 values_of_group(const u16* base, u32 words, u32 values, u32 group) {
  return values_before_group(base, words, values, group + 1) - base[group * group_words];
}

template <typename W>
struct Range {
  W all = 0, least = ~W{0}, most = 0;

  TERRACE_DEVICE void add(W value, W low) {
    all |= value;
    least = low < least ? low : least;
    most = low > most ? low : most;
  }
};

template <typename W>
TERRACE_DEVICE Range<W> over_warp(Range<W> range) {
  for (u32 step = warp_lanes / 2; step > 0; step /= 2) {
    range.all |= simt::shuffle_xor(range.all, step);
    const W least = simt::shuffle_xor(range.least, step), most = simt::shuffle_xor(range.most, step);
    range.least = least < range.least ? least : range.least;
    range.most = most > range.most ? most : range.most;
  }
  return range;
}

// By one warp: the tightest code of the elements that are not zero; there is one.
template <typename T>
TERRACE_DEVICE ExpCode code_of(const T* in, u32 elements, ValueShape shape) {
  using W = Wide<T>;
  constexpr u32 sign_shift = 8 * sizeof(T) - 1;
  Range<W> range;
  for (u32 i = lane_index(); i < elements; i += warp_lanes) {
    const W value = in[i];
    if (value != 0) range.add(value, value & low_bits<W>(sign_shift));
  }
  range = over_warp(range);
  const u32 base = static_cast<u32>(range.least >> shape.mantissa_bits);
  const u32 top = static_cast<u32>(range.most >> shape.mantissa_bits);
  return {base, simt::bit_width(top - base), static_cast<u32>(range.all >> sign_shift),
          smaller(simt::lowest_bit(range.all), shape.mantissa_bits)};
}

// By all threads: the headers, and each group's bytes in `begin`. Ends with a barrier.
template <typename T>
TERRACE_DEVICE void find_codes(const T* in, u32 elements, const u16* base, u32 values, ValueShape shape,
                               Groups& groups) {
  const u32 words = ceil_div(elements, 64);
  for (u32 g = warp_index(); g * group_elements < elements; g += warp_count()) {
    const u32 count = values_of_group(base, words, values, g), first = g * group_elements;
    ExpCode code{0, 0, 0, shape.mantissa_bits};  // of no bits
    if (count > 0) code = code_of(in + first, smaller(group_elements, elements - first), shape);
    if (lane_index() != 0) continue;
    groups.headers[g] = count > 0 ? code.header() : 0;
    groups.begin[g] = static_cast<u16>(ceil_div(count * code.bits(shape.mantissa_bits), 8));
  }
  simt::sync_cta();
}

// Each group's bytes become where they begin; returns their sum. Every warp adds for itself, the first one
// writes. With more than 64 KiB the places are wrong, but then the block is stored raw.
TERRACE_DEVICE u32 place_groups(u32 count, u16* begin) {
  const u32 lane = lane_index();
  const u32 first = 2 * lane < count ? begin[2 * lane] : 0,
            second = 2 * lane + 1 < count ? begin[2 * lane + 1] : 0;
  const u32 before = exclusive_sum(first + second);
  simt::sync_cta();
  if (warp_index() == 0 && 2 * lane < count) begin[2 * lane] = static_cast<u16>(before);
  if (warp_index() == 0 && 2 * lane + 1 < count) begin[2 * lane + 1] = static_cast<u16>(before + first);
  return simt::shuffle(before + first + second, warp_lanes - 1);
}

// Bits [32 word, 32 word + 32) of the values' bits.
template <typename T>
TERRACE_DEVICE u32 collect_bits(const T* values, u32 count, u32 word, ExpCode code, ValueShape shape) {
  const u32 bits = code.bits(shape.mantissa_bits);
  u32 value = 32 * word / bits, filled = bits - 32 * word % bits;
  u64 out = u64{squeezed(values[value], code, shape)} >> (bits - filled);
  while (filled < 32 && ++value < count) {
    out |= u64{squeezed(values[value], code, shape)} << filled;
    filled += bits;
  }
  return static_cast<u32>(out);
}

// Groups begin on any byte.
TERRACE_DEVICE void store_bytes(u8* out, u32 bytes, u32 word, u32 value) {
  for (u32 i = 0; i < 4 && 4 * word + i < bytes; ++i) out[4 * word + i] = static_cast<u8>(value >> (8 * i));
}

// One round: so many values become so many bytes.
template <typename T>
TERRACE_DEVICE void squeeze_round(const T* values, u32 count, ExpCode code, ValueShape shape, u8* out) {
  const u32 bytes = ceil_div(count * code.bits(shape.mantissa_bits), 8);
  u32 held[squeezed_words];
  TERRACE_UNROLL
  for (u32 k = 0; k < squeezed_words; ++k) {
    const u32 word = k * simt::thread_count() + simt::thread_index();
    held[k] = 4 * word < bytes ? collect_bits(values, count, word, code, shape) : 0;
  }
  simt::sync_cta();
  TERRACE_UNROLL
  for (u32 k = 0; k < squeezed_words; ++k)
    store_bytes(out, bytes, k * simt::thread_count() + simt::thread_index(), held[k]);
}

template <typename T>
TERRACE_DEVICE void squeeze_group(const T* values, u32 count, ExpCode code, ValueShape shape, u8* out) {
  const u32 round = squeezed_words * 4 / static_cast<u32>(sizeof(T)) * simt::thread_count();
  for (u32 first = 0; first < count; first += round)
    squeeze_round(values + first, smaller(round, count - first), code, shape,
                  out + first / 8 * code.bits(shape.mantissa_bits));
}

// By all threads: headers and bits to `out`, from the packed values. Barriers before and after it.
template <typename T>
TERRACE_DEVICE void squeeze_groups(const T* packed, u32 elements, const u16* base, u32 values,
                                   ValueShape shape, const Groups& groups, u8* out) {
  const u32 words = ceil_div(elements, 64), count = ceil_div(elements, group_elements);
  auto* headers = reinterpret_cast<u32*>(out);
  for (u32 g = simt::thread_index(); g < count; g += simt::thread_count()) headers[g] = groups.headers[g];
  u8* bits = out + count * group_header_bytes;
  for (u32 g = 0; g < count; ++g)
    squeeze_group(packed + base[g * group_words], values_of_group(base, words, values, g),
                  code_of_header(groups.headers[g]), shape, bits + groups.begin[g]);
}

}  // namespace terrace::compression::cuda
