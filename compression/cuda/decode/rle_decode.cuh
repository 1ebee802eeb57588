// rle's pairs into a mask, from any bytes: the verdicts of read_pairs() of rle.cpp. What makes a pair valid
// is in it and the one before it, but for the elements left: as no pair is without elements, the sums that
// the pairs may not exceed are all right exactly if the last one is.
#pragma once

#include "compression/cuda/decode/decode_block.cuh"
#include "compression/cuda/encode/rle_encode.cuh"

namespace terrace::compression::cuda {

struct Pair {
  u32 zeros, values;
  TERRACE_DEVICE u32 elements() const { return zeros + values; }
};

struct PairsView {
  const u16* stored;
  u32 count;
  TERRACE_DEVICE Pair operator[](u32 i) const { return {stored[i] & 0xffU, u32{stored[i]} >> 8}; }
};

// The pairs of a warp, in order.
TERRACE_DEVICE WordRange pairs_of_warp(u32 pairs) { return words_of_warp(pairs); }

// Whether write_pairs() could have written pair i behind the one before it, whatever the elements left.
TERRACE_DEVICE bool is_pair_sound(const PairsView& pairs, u32 i) {
  const Pair pair = pairs[i];
  if (pair.elements() == 0) return false;
  if (pair.values == 0 && pair.zeros != longest_run && i + 1 < pairs.count) return false;
  return pair.zeros != 0 || i == 0 || pairs[i - 1].values == longest_run;
}

// By all threads: checks the pairs; `before` becomes the elements of the warps before this one's.
TERRACE_DEVICE bool check_pairs(const PairsView& pairs, u32 elements, u32* of_warp, u32& before) {
  const WordRange range = pairs_of_warp(pairs.count);
  u32 counted = 0;
  bool sound = true;
  for (u32 i = range.begin + lane_index(); i < range.end; i += warp_lanes) {
    sound = sound && is_pair_sound(pairs, i);
    counted += pairs[i].elements();
  }
  counted = warp_sum(counted);
  if (lane_index() == 0) of_warp[warp_index()] = counted;
  sound = simt::all_in_cta(sound);
  const Totals totals = sum_over_warps(of_warp);
  before = totals.before;
  return sound && totals.all == elements;
}

// 32 bits at a time: neighbouring pairs share words of the mask.
TERRACE_DEVICE void set_bits(u32* mask, u32 from, u32 count) {
  while (count > 0) {
    const u32 here = smaller(count, 32 - from % 32);
    simt::atomic_or(&mask[from / 32], 0xffffffffU >> (32 - here) << from % 32);
    from += here;
    count -= here;
  }
}

// The bits of the warp's pairs, the first of which begins at element `at`.
TERRACE_DEVICE void set_pairs(const PairsView& pairs, u32 at, u32* mask) {
  const WordRange range = pairs_of_warp(pairs.count);
  for (u32 first = range.begin; first < range.end; first += warp_lanes) {
    const u32 i = first + lane_index();
    const Pair pair = i < range.end ? pairs[i] : Pair{0, 0};
    const u32 before = exclusive_sum(pair.elements());
    set_bits(mask, at + before + pair.zeros, pair.values);
    at += simt::shuffle(before + pair.elements(), warp_lanes - 1);
  }
}

// The number of pairs; `bytes` is at least 8. Nothing that has no room is a number of pairs: 0.
TERRACE_DEVICE u32 stored_pairs(const DecodeShared& shared, u32 bytes) {
  const u64 pairs = *reinterpret_cast<const u64*>(shared.extent);
  return pairs <= bytes / 2 && rle_values_offset(static_cast<u32>(pairs)) <= bytes ? static_cast<u32>(pairs)
                                                                                   : 0;
}

// The mask that an rle extent describes. Returns the bytes read, 0 where they contradict themselves.
TERRACE_DEVICE u32 read_pairs(DecodeShared& shared, u32 bytes, u32 elements) {
  if (bytes < pairs_offset) return 0;
  const PairsView pairs{reinterpret_cast<const u16*>(shared.extent + pairs_offset),
                        stored_pairs(shared, bytes)};
  if (pairs.count == 0) return 0;
  const u32 values = rle_values_offset(pairs.count),
            padding = pairs_offset + 2 * pairs.count + simt::thread_index();
  clear_mask(shared, ceil_div(elements, 64));
  if (!simt::all_in_cta(padding >= values || shared.extent[padding] == 0)) return 0;
  u32 at = 0;
  if (!check_pairs(pairs, elements, shared.of_warp, at)) return 0;
  set_pairs(pairs, at, shared.half_words);
  simt::sync_cta();
  return values;
}

}  // namespace terrace::compression::cuda
