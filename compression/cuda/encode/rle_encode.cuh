// rle on one block in shared memory: the pairs of rle.cpp's write_pairs(), all at once.
//
// A pair begins at a certain element, and which one follows from the mask: where a run of zeros begins, every
// 255 elements within a run, and at the block's first element.
//
//   mask    1 1 0 0 0 1 1 0 … 0 0 0 … 0 1 0
//   begins  ▲   ▲         ▲     ▲ (+255)  ▲
//
// So each word of the mask has its own pairs' beginnings, once it is known where the run began that reaches
// into it: a maximum over the words before. Their counts, added up, say where its pairs lie; and what a pair
// says is found by looking at most 255 zeros and 255 values ahead.
#pragma once

#include "compression/cuda/masks.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 pairs_offset = 8;  // a 32-bit count of the pairs, and zeros
inline constexpr u32 longest_run = 255;

// A block's mask; bits behind the last element are zero.
struct MaskView {
  const u64* words;
  u32 elements;
  TERRACE_DEVICE u32 count() const { return ceil_div(elements, 64); }
  TERRACE_DEVICE bool holds(u32 i) const { return (words[i / 64] >> i % 64 & 1) != 0; }
  // Word w's bits of elements.
  TERRACE_DEVICE u64 inside(u32 w) const {
    const u32 left = elements - 64 * w;
    return left < 64 ? (u64{1} << left) - 1 : ~u64{0};
  }
};

// What a warp knows of its words before it looks at them one by one.
struct RunScan {
  u32 run_begin;     // of the run that holds the element before the warp's first
  u32 pairs_before;  // that begin in other warps' words
  u32 pairs;         // of the block
};

// Bits whose element differs from the one before; the block's first element does.
TERRACE_DEVICE u64 run_begins(const MaskView& mask, u32 w) {
  const u64 word = mask.words[w], before = w > 0 ? mask.words[w - 1] >> 63 : ~word & 1;
  return (word ^ (word << 1 | before)) & mask.inside(w);
}

TERRACE_DEVICE u32 highest_bit(u64 word) {
  const u32 high = static_cast<u32>(word >> 32);
  return (high != 0 ? 32 + simt::bit_width(high) : simt::bit_width(static_cast<u32>(word))) - 1;
}

// Where the last run of word w begins, if one does, else 0.
TERRACE_DEVICE u32 last_run_begin(u64 begins, u32 w) {
  return begins != 0 ? 64 * w + highest_bit(begins) : 0;
}

// The bit of the element every 255 behind `run_begin`, if it is in word w, which the run reaches into.
TERRACE_DEVICE u64 continuation(u64 begins, u32 w, u32 run_begin) {
  const u32 at = run_begin + rounded_up(64 * w - run_begin, longest_run) - 64 * w;
  const u32 run_end = begins != 0 ? simt::lowest_bit(begins) : 64;
  return at < run_end ? u64{1} << at : 0;
}

// The elements of word w where pairs begin.
TERRACE_DEVICE u64 pair_begins(const MaskView& mask, u64 begins, u32 w, u32 run_begin) {
  const u64 of_zeros = begins & ~mask.words[w];
  return w == 0 ? of_zeros | 1 : of_zeros | (continuation(begins, w, run_begin) & mask.inside(w));
}

// The largest of the values of the lanes up to this one.
TERRACE_DEVICE u32 inclusive_max(u32 value) {
  for (u32 step = 1; step < warp_lanes; step *= 2) {
    const u32 below = simt::shuffle_up(value, step);
    if (lane_index() >= step && below > value) value = below;
  }
  return value;
}

// Calls visit(lane's pair beginnings, its word, pairs in the warp's words before it) for 32 words at a time;
// lanes without a word get 0. Returns the pairs of all the warp's words.
template <typename Visit>
TERRACE_DEVICE u32 visit_pairs(const MaskView& mask, u32 run_begin, const Visit& visit) {
  const WordRange range = words_of_warp(mask.count());
  u32 pairs = 0;
  for (u32 first = range.begin; first < range.end; first += warp_lanes) {
    const u32 w = first + lane_index();
    const u64 begins = w < range.end ? run_begins(mask, w) : 0;
    const u32 last = inclusive_max(last_run_begin(begins, w)), below = simt::shuffle_up(last, 1);
    const u32 here = lane_index() > 0 && below > run_begin ? below : run_begin;
    const u64 of_word = w < range.end ? pair_begins(mask, begins, w, here) : 0;
    const u32 count = simt::bits_in(of_word), before = exclusive_sum(count);
    visit(of_word, w, pairs + before);
    pairs += simt::shuffle(before + count, warp_lanes - 1);
    const u32 latest = simt::shuffle(last, warp_lanes - 1);
    run_begin = latest > run_begin ? latest : run_begin;
  }
  return pairs;
}

// Where the last run begins that begins in other warps' words before this one's. Ends with a barrier.
TERRACE_DEVICE u32 find_run_begin(const MaskView& mask, u32* of_warp) {
  const WordRange range = words_of_warp(mask.count());
  u32 last = 0;
  for (u32 w = range.begin + lane_index(); w < range.end; w += warp_lanes) {
    const u32 here = last_run_begin(run_begins(mask, w), w);
    last = here > last ? here : last;
  }
  last = simt::shuffle(inclusive_max(last), warp_lanes - 1);
  if (lane_index() == 0) of_warp[warp_index()] = last;
  simt::sync_cta();
  const u32 others = inclusive_max(lane_index() < warp_index() ? of_warp[lane_index()] : 0);
  simt::sync_cta();
  return simt::shuffle(others, warp_lanes - 1);
}

// By all threads; a barrier has to follow. `of_warp` is scratch of a word for each warp.
TERRACE_DEVICE RunScan scan_runs(const MaskView& mask, u32* of_warp) {
  const u32 run_begin = find_run_begin(mask, of_warp);
  const u32 pairs = visit_pairs(mask, run_begin, [](u64, u32, u32) {});
  if (lane_index() == 0) of_warp[warp_index()] = pairs;
  simt::sync_cta();
  const Totals totals = sum_over_warps(of_warp);
  return {run_begin, totals.before, totals.all};
}

TERRACE_DEVICE u32 rle_values_offset(u32 pairs) { return rounded_up(pairs_offset + 2 * pairs, 8); }

// Elements from `from` on that are all values, or all zeros; no more than 255.
TERRACE_DEVICE u32 run_length(const MaskView& mask, u32 from, bool of_values) {
  const u32 end = smaller(mask.elements, from + longest_run);
  for (u32 at = from; at < end; at = (at / 64 + 1) * 64) {
    const u64 word = mask.words[at / 64], others = (of_values ? ~word : word) >> at % 64;
    if (others != 0) return smaller(end, at + simt::lowest_bit(others)) - from;
  }
  return end > from ? end - from : 0;
}

TERRACE_DEVICE u16 pair_at(const MaskView& mask, u32 begin) {
  const u32 zeros = run_length(mask, begin, false), values = run_length(mask, begin + zeros, true);
  return static_cast<u16>(zeros | values << 8);
}

// Count, pairs, and the padding up to the values. A barrier has to follow.
TERRACE_DEVICE void write_pairs(const MaskView& mask, const RunScan& scan, u8* to) {
  auto* pairs = reinterpret_cast<u16*>(to + pairs_offset);
  visit_pairs(mask, scan.run_begin, [&](u64 begins, u32 w, u32 before) {
    for (u16* at = pairs + scan.pairs_before + before; begins != 0; begins &= begins - 1)
      *at++ = pair_at(mask, 64 * w + simt::lowest_bit(begins));
  });
  if (simt::thread_index() == 0) *reinterpret_cast<u64*>(to) = scan.pairs;
  const u32 padding = scan.pairs + simt::thread_index();
  if (pairs_offset + 2 * padding < rle_values_offset(scan.pairs)) pairs[padding] = 0;
}

}  // namespace terrace::compression::cuda
