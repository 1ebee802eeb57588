// zvc on one block in shared memory: its mask, and its values packed in place.
//
//   0             front                            front + 64 KiB
//   │ mask, … ◄── │ elements as they were read ……………… │
//   │ mask │ packed values ……… │
//
// A value moves from front + width i to values_at + width rank. As values_at is at most `front` and the rank
// at most i, values only move down; so the CTA takes round after round of elements into registers, and after
// a barrier writes those that are not zero, without touching what is still to be read.
#pragma once

#include "compression/cuda/masks.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 words_a_round = 4;  // that a warp takes: eight elements a thread

struct MaskScan {
  u32 values;         // elements that are not zero
  u32 nonzero_words;  // of the mask
  bool all_equal;
};

struct WarpScan {
  u32 values = 0, nonzero_words = 0;
  bool all_equal = true;
};

// The warp's words of the mask, and how many values lie before each of them within the warp's.
template <typename T>
TERRACE_DEVICE WarpScan scan_words(const T* in, u32 elements, WordRange range, u64* mask, u16* base) {
  WarpScan scan;
  const T first = in[0];
  for (u32 w = range.begin; w < range.end; ++w) {
    const u32 i = 64 * w + lane_index();
    const T low = i < elements ? in[i] : T{0}, high = i + 32 < elements ? in[i + 32] : T{0};
    scan.all_equal =
        scan.all_equal && (low == first || i >= elements) && (high == first || i + 32 >= elements);
    const u64 word = simt::ballot(low != 0) | u64{simt::ballot(high != 0)} << 32;
    if (lane_index() == 0) {
      mask[w] = word;
      base[w] = static_cast<u16>(scan.values);
    }
    scan.values += simt::bits_in(word);
    scan.nonzero_words += word != 0 ? 1 : 0;
  }
  return scan;
}

// By all threads; ends with a barrier. `of_warp` is scratch of a word for each warp.
template <typename T>
TERRACE_DEVICE MaskScan scan_mask(const T* in, u32 elements, u64* mask, u16* base, u32* of_warp) {
  const WordRange range = words_of_warp(ceil_div(elements, 64));
  const WarpScan scan = scan_words(in, elements, range, mask, base);
  // Up to 65536 values and 1024 words: both sums fit into one word.
  if (lane_index() == 0) of_warp[warp_index()] = scan.values | scan.nonzero_words << 20;
  const bool all_equal = simt::all_in_cta(scan.all_equal);
  const Totals totals = sum_over_warps(of_warp);
  shift_bases(base, range, totals.before & 0xfffff);
  simt::sync_cta();
  return {totals.all & 0xfffff, totals.all >> 20, all_equal};
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

// Turns the mask at the front into its short form, in place: all words are in registers before any is
// written.
TERRACE_DEVICE void shorten_mask(u64* mask, u32 words, u64* summary) {
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
  if (simt::thread_index() < summary_words) mask[simt::thread_index()] = summary[simt::thread_index()];
  TERRACE_UNROLL
  for (u32 k = 0; k < held; ++k) {
    const u32 w = k * simt::thread_count() + simt::thread_index();
    if (kept[k] != 0) mask[summary_words + rank_of_word(summary, w)] = kept[k];
  }
}

// Four words' elements of one warp, in registers.
template <typename T>
struct Round {
  T low[words_a_round], high[words_a_round];
};

template <typename T>
TERRACE_DEVICE Round<T> read_round(const T* in, u32 elements, u32 first_word) {
  Round<T> round;
  TERRACE_UNROLL
  for (u32 k = 0; k < words_a_round; ++k) {
    const u32 i = 64 * (first_word + k) + lane_index();
    round.low[k] = i < elements ? in[i] : T{0};
    round.high[k] = i + 32 < elements ? in[i + 32] : T{0};
  }
  return round;
}

template <typename T>
TERRACE_DEVICE void write_round(const Round<T>& round, const u16* base, u32 first_word, u32 words, T* out) {
  TERRACE_UNROLL
  for (u32 k = 0; k < words_a_round; ++k) {
    const u32 low = simt::ballot(round.low[k] != 0), high = simt::ballot(round.high[k] != 0);
    if (first_word + k >= words) continue;
    T* at = out + base[first_word + k];
    if (round.low[k] != 0) at[simt::bits_in(low & lanes_below())] = round.low[k];
    if (round.high[k] != 0) at[simt::bits_in(low) + simt::bits_in(high & lanes_below())] = round.high[k];
  }
}

// By all threads, in place; a barrier has to follow.
template <typename T>
TERRACE_DEVICE void pack_values(const T* in, u32 elements, const u16* base, T* out) {
  const u32 words = ceil_div(elements, 64);
  for (u32 round_begin = 0; round_begin < words; round_begin += warp_count() * words_a_round) {
    const u32 first_word = round_begin + warp_index() * words_a_round;
    const Round<T> round = read_round(in, elements, first_word);
    simt::sync_cta();
    write_round(round, base, first_word, words, out);
  }
}

// The same upwards, for what has much in front of its values: they end behind the elements, so that none
// moves down, and the rounds begin with the last one. `out` + all values is at or above `in` + elements. A
// barrier has to follow.
template <typename T>
TERRACE_DEVICE void pack_values_up(const T* in, u32 elements, const u16* base, T* out) {
  const u32 words = ceil_div(elements, 64), each = warp_count() * words_a_round;
  for (u32 end = rounded_up(words, each); end > 0; end -= each) {
    const u32 first_word = end - each + warp_index() * words_a_round;
    const Round<T> round = read_round(in, elements, first_word);
    simt::sync_cta();
    write_round(round, base, first_word, words, out);
  }
}

}  // namespace terrace::compression::cuda
