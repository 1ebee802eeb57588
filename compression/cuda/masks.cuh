// Masks of one block in shared memory, and where the values of each of their words begin.
#pragma once

#include "compression/cuda/simt.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 most_words = 1024;  // of a block's mask: 64 KiB of elements of one byte
inline constexpr u32 most_warps = 32;
inline constexpr u32 most_summary_words = most_words / 64;
inline constexpr u32 group_words = 16;  // zvc_exp's groups: 1024 elements
inline constexpr u32 most_groups = most_words / group_words;

// The words of a mask that a warp looks at: a range of its own, so that counts need one sum over the warps.
struct WordRange {
  u32 begin, end;
};
TERRACE_DEVICE WordRange words_of_warp(u32 words) {
  const u32 each = ceil_div(words, warp_count()), begin = smaller(words, warp_index() * each);
  return {begin, smaller(words, begin + each)};
}

// The mask's bits that element 64 w + `bit` has before it in its word.
TERRACE_DEVICE u64 bits_before(u64 word, u32 bit) { return word & ((u64{1} << bit) - 1); }

// What the warps counted, added up: `before` is of the warps before this one.
struct Totals {
  u32 before, all;
};
TERRACE_DEVICE Totals sum_over_warps(const u32* of_warp) {
  const u32 mine = lane_index() < warp_count() ? of_warp[lane_index()] : 0;
  const u32 before = exclusive_sum(mine);
  return {simt::shuffle(before, warp_index()), simt::shuffle(before + mine, warp_lanes - 1)};
}

// base[w] counts from its warp's first word; now from the mask's. A barrier has to follow.
TERRACE_DEVICE void shift_bases(u16* base, WordRange range, u32 before) {
  for (u32 w = range.begin + lane_index(); w < range.end; w += warp_lanes)
    base[w] = static_cast<u16>(base[w] + before);
}

// The place of word w among the words that are not zero.
TERRACE_DEVICE u32 rank_of_word(const u64* summary, u32 w) {
  u32 rank = simt::bits_in(bits_before(summary[w / 64], w % 64));
  for (u32 i = 0; i < w / 64; ++i) rank += simt::bits_in(summary[i]);
  return rank;
}

}  // namespace terrace::compression::cuda
