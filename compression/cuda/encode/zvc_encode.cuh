// zvc on one block in shared memory: its mask, and its values packed in place.
//
//   0             front                            front + 64 KiB
//   │ mask, … ◄── │ elements as they were read ……………… │
//   │ mask │ packed values ……… │
//
// A warp takes chunks of 512 bytes, 16 a lane, whose elements are neighbours: so a lane makes whole bits of
// the mask without asking the others, and its values follow each other where they are packed.
//
// A value moves from front + width i to values_at + width rank. As values_at is at most `front` and the rank
// at most i, values only move down; so the CTA takes round after round of elements into registers, and after
// a barrier writes those that are not zero, without touching what is still to be read.
#pragma once

#include "compression/cuda/masks.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 chunk_bytes = 16 * warp_lanes;
inline constexpr u32 chunks_a_round = 4;  // that a warp takes: 64 bytes a lane

template <typename T>
inline constexpr u32 lane_elements = 16 / sizeof(T);
template <typename T>
inline constexpr u32 chunk_words = 8 / sizeof(T);  // of the mask

struct MaskScan {
  u32 values;         // elements that are not zero
  u32 nonzero_words;  // of the mask
  bool all_equal;
};

// Four bits of four bytes, each set where the byte is not zero.
TERRACE_DEVICE u32 bits_of_bytes(u32 bytes) {
  const u32 high = (((bytes & 0x7f7f7f7f) + 0x7f7f7f7f) | bytes) & 0x80808080;
  return (high >> 7) * 0x01020408 >> 24;
}

// A bit for each of a lane's elements, set where it is not zero.
template <typename T>
TERRACE_DEVICE u32 value_bits(const Vector& vector) {
  const u32 parts[] = {static_cast<u32>(vector.low), static_cast<u32>(vector.low >> 32),
                       static_cast<u32>(vector.high), static_cast<u32>(vector.high >> 32)};
  if constexpr (sizeof(T) == 1)
    return bits_of_bytes(parts[0]) | bits_of_bytes(parts[1]) << 4 | bits_of_bytes(parts[2]) << 8 |
           bits_of_bytes(parts[3]) << 12;
  if constexpr (sizeof(T) == 2) {  // the even elements' bits in the low half, the odd ones' in the high half
    const u32 bits = simt::nonzero_halves(parts[0]) + simt::nonzero_halves(parts[1]) * 4 +
                     simt::nonzero_halves(parts[2]) * 16 + simt::nonzero_halves(parts[3]) * 64;
    return (bits | bits >> 15) & 0xff;
  }
  if constexpr (sizeof(T) == 4)
    return simt::nonzero(parts[0]) + simt::nonzero(parts[1]) * 2 + simt::nonzero(parts[2]) * 4 +
           simt::nonzero(parts[3]) * 8;
  return simt::nonzero(parts[0] | parts[1]) + simt::nonzero(parts[2] | parts[3]) * 2;
}

// The lanes' bits as a chunk's bytes of the mask.
template <typename T>
TERRACE_DEVICE void store_bits(u32 bits, u8* mask) {
  if constexpr (sizeof(T) == 1)
    reinterpret_cast<u16*>(mask)[lane_index()] = static_cast<u16>(bits);
  else {
    constexpr u32 lanes = 8 / lane_elements<T>;  // that share a byte
    bits <<= lane_index() % lanes * lane_elements<T>;
    TERRACE_UNROLL
    for (u32 step = 1; step < lanes; step *= 2) bits |= simt::shuffle_xor(bits, step);
    if (lane_index() % lanes == 0) mask[lane_index() / lanes] = static_cast<u8>(bits);
  }
}

// The warp's bytes of the mask. Behind the last element there are zeros up to a whole chunk.
template <typename T>
TERRACE_DEVICE void mark_values(const T* in, WordRange chunks, u64* mask) {
  const auto* vectors = reinterpret_cast<const Vector*>(in);
  auto* bytes = reinterpret_cast<u8*>(mask);
  TERRACE_UNROLL_BY(4)
  for (u32 chunk = chunks.begin; chunk < chunks.end; ++chunk)
    store_bits<T>(value_bits<T>(vectors[chunk * warp_lanes + lane_index()]),
                  bytes + chunk * chunk_words<T> * 8);
  simt::sync_warp();
}

// Both sums of a mask's words in one: up to 65536 values and 1024 words that are not zero.
TERRACE_DEVICE u32 joined_counts(u64 word) { return simt::bits_in(word) | (word != 0 ? 1U << 20 : 0); }
TERRACE_DEVICE u32 values_in(u32 joined) { return joined & 0xfffff; }

// How many values lie before each word of the warp's within the warp's; returns both sums of all.
TERRACE_DEVICE u32 count_words(const u64* mask, WordRange range, u16* base) {
  u32 counted = 0;
  for (u32 begin = range.begin; begin < range.end; begin += warp_lanes) {
    const u32 w = begin + lane_index(), mine = w < range.end ? joined_counts(mask[w]) : 0,
              below = exclusive_sum(mine);
    if (w < range.end) base[w] = static_cast<u16>(values_in(counted + below));
    counted += simt::shuffle(below + mine, warp_lanes - 1);
  }
  return counted;
}

// Most threads see a difference at once and stop.
template <typename T>
TERRACE_DEVICE bool is_repeated(const T* in, u32 elements) {
  const T first = in[0];
  bool equal = true;
  for (u32 i = simt::thread_index(); equal && i < elements; i += simt::thread_count()) equal = in[i] == first;
  return simt::all_in_cta(equal);
}

// By all threads; ends with a barrier. `of_warp` is scratch of a word for each warp.
template <typename T>
TERRACE_DEVICE MaskScan scan_mask(const T* in, u32 elements, u64* mask, u16* base, u32* of_warp) {
  const WordRange chunks = words_of_warp(ceil_div(elements * sizeof(T), chunk_bytes));
  const WordRange range{chunks.begin * chunk_words<T>, chunks.end * chunk_words<T>};
  mark_values(in, chunks, mask);
  const u32 counted = count_words(mask, range, base);
  if (lane_index() == 0) of_warp[warp_index()] = counted;
  simt::sync_cta();
  const Totals totals = sum_over_warps(of_warp);
  shift_bases(base, range, values_in(totals.before));
  simt::sync_cta();
  const u32 values = values_in(totals.all);
  return {values, totals.all >> 20, values == elements && is_repeated(in, elements)};
}

// Rule 4 of the format: the share of zeros among 16 groups of 64 elements is below what a mask costs. Every
// warp finds out for itself.
template <typename T>
TERRACE_DEVICE bool is_dense(const u64* mask, u32 words) {
  constexpr u32 samples = 16;
  const u32 lane = lane_index();
  const u32 zeros = lane < samples ? 64 - simt::bits_in(mask[lane * words / samples]) : 0;
  return warp_sum(zeros) < samples * 64 / (8 * sizeof(T));
}

// The mask of the mask: bit i of word k says whether mask word 64 k + i is zero. A barrier has to follow.
TERRACE_DEVICE void summarise_mask(const u64* mask, u32 words, u64* summary) {
  for (u32 k = warp_index(); k < ceil_div(words, 64); k += warp_count()) {
    const u32 w = 64 * k + lane_index();
    const u64 low = simt::ballot(w < words && mask[w] != 0);
    const u64 high = simt::ballot(w + 32 < words && mask[w + 32] != 0);
    if (lane_index() == 0) summary[k] = low | high << 32;
  }
}

// Turns the mask at the front into its short form, which begins at `to`, in the mask or close behind its
// beginning: all words are in registers before any is written.
TERRACE_DEVICE void shorten_mask(const u64* mask, u32 words, u64* summary, u64* to) {
  constexpr u32 held = 8;  // words a thread, with 128 threads and 1024 words
  u64 kept[held];
  summarise_mask(mask, words, summary);
  TERRACE_UNROLL
  for (u32 k = 0; k < held; ++k) {
    const u32 w = k * simt::thread_count() + simt::thread_index();
    kept[k] = w < words ? mask[w] : 0;
  }
  simt::sync_cta();
  const u32 summary_words = ceil_div(words, 64);
  if (simt::thread_index() < summary_words) to[simt::thread_index()] = summary[simt::thread_index()];
  TERRACE_UNROLL
  for (u32 k = 0; k < held; ++k) {
    const u32 w = k * simt::thread_count() + simt::thread_index();
    if (kept[k] != 0) to[summary_words + rank_of_word(summary, w)] = kept[k];
  }
}

// A block's elements, its mask, and how many values lie before each of the mask's words.
template <typename T>
struct Unpacked {
  const T* in;
  u32 elements;
  const u64* mask;
  const u16* base;

  TERRACE_DEVICE u32 chunks() const { return ceil_div(elements * static_cast<u32>(sizeof(T)), chunk_bytes); }
};

// Where a lane's elements lie in the mask's words of a chunk.
template <typename T>
struct LanePlace {
  u32 word = lane_index() * lane_elements<T> / 64;
  u64 below = bits_before(~u64{0}, lane_index() * lane_elements<T> % 64);
};

// Some chunks of one warp, in registers. Behind the block's last chunk there is that one again.
struct Round {
  Vector held[chunks_a_round];
  u32 rank[chunks_a_round];  // of the lane's first element
};

template <typename T>
TERRACE_DEVICE Round read_round(const Unpacked<T>& block, const LanePlace<T>& place, u32 first_chunk) {
  Round round;
  TERRACE_UNROLL
  for (u32 k = 0; k < chunks_a_round; ++k) {
    const u32 chunk = smaller(first_chunk + k, block.chunks() - 1), w = chunk * chunk_words<T> + place.word;
    round.held[k] = reinterpret_cast<const Vector*>(block.in)[chunk * warp_lanes + lane_index()];
    round.rank[k] = block.base[w] + simt::bits_in(block.mask[w] & place.below);
  }
  return round;
}

// The elements of 32 bits.
template <typename T, typename Write>
TERRACE_DEVICE void write_part(u32 part, const Write& write) {
  if constexpr (sizeof(T) == 1) {
    TERRACE_UNROLL
    for (u32 i = 0; i < 32; i += 8) write((part >> i & 0xff) != 0, static_cast<T>(part >> i));
  }
  if constexpr (sizeof(T) == 2) {
    write((part & 0xffff) != 0, static_cast<T>(part));
    write(part > 0xffff, static_cast<T>(part >> 16));
  }
  if constexpr (sizeof(T) == 4) write(part != 0, part);
}

// A lane's values one behind the other.
template <typename T>
TERRACE_DEVICE void write_lane(const Vector& vector, T* at) {
  const u32 parts[] = {static_cast<u32>(vector.low), static_cast<u32>(vector.low >> 32),
                       static_cast<u32>(vector.high), static_cast<u32>(vector.high >> 32)};
  const auto write = [&at](bool is_value, T value) {
    if (!is_value) return;
    *at = value;
    ++at;
  };
  if constexpr (sizeof(T) == 8) {
    write(vector.low != 0, vector.low);
    write(vector.high != 0, vector.high);
  } else {
    TERRACE_UNROLL
    for (const u32 part : parts) write_part<T>(part, write);
  }
}

template <typename T>
TERRACE_DEVICE void write_round(const Round& round, u32 first_chunk, u32 chunks, T* out) {
  TERRACE_UNROLL
  for (u32 k = 0; k < chunks_a_round; ++k)
    if (first_chunk + k < chunks) write_lane(round.held[k], out + round.rank[k]);
}

// A round of all warps. Those of a block ascend or descend, so that none overwrites what is still to be read.
template <typename T>
TERRACE_DEVICE void pack_round(const Unpacked<T>& block, const LanePlace<T>& place, u32 first_chunk, T* out) {
  const Round round = read_round(block, place, first_chunk);
  simt::sync_cta();
  write_round(round, first_chunk, block.chunks(), out);
}

// By all threads, in place; a barrier has to follow.
template <typename T>
TERRACE_DEVICE void pack_values(const Unpacked<T>& block, T* out) {
  const LanePlace<T> place;
  const u32 each = warp_count() * chunks_a_round;
  for (u32 begin = 0; begin < block.chunks(); begin += each)
    pack_round(block, place, begin + warp_index() * chunks_a_round, out);
}

// The same upwards, for what has much in front of its values: they end behind the elements, so that none
// moves down, and the rounds begin with the last one. `out` + all values is at or above `in` + elements. A
// barrier has to follow.
template <typename T>
TERRACE_DEVICE void pack_values_up(const Unpacked<T>& block, T* out) {
  const LanePlace<T> place;
  const u32 each = warp_count() * chunks_a_round;
  for (u32 end = rounded_up(block.chunks(), each); end > 0; end -= each)
    pack_round(block, place, end - each + warp_index() * chunks_a_round, out);
}

}  // namespace terrace::compression::cuda
