// Where a block's extent begins: the sum of the extents before it, by decoupled look-back (Merrill and
// Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA NVR-2016-002).
//
// Each block has a word that says, in turn, nothing, the block's own size, or the sum of all sizes of its
// tensor up to and with it. A block publishes its size as soon as it knows it, then adds what it finds before
// it, 32 words at a time, until it meets a sum. State and value share one word, so no reader can see one
// without the other.
#pragma once

#include "compression/cuda/simt.cuh"

namespace terrace::compression::cuda {

inline constexpr u64 size_known = u64{1} << 62, sum_known = u64{2} << 62, progress_value = size_known - 1;

// By one thread. The tensor's first block knows its sum at once.
TERRACE_DEVICE void publish_size(u64* progress, u32 block, u32 first, u32 units) {
  simt::store_exchanged(&progress[block], (block == first ? sum_known : size_known) | units);
}

// One step: the words of the 32 blocks before `end` (lane 0 the last one), as soon as each says something.
TERRACE_DEVICE u64 wait_for_progress(const u64* progress, u32 end, u32 first) {
  const u32 distance = lane_index() + 1;
  const bool inside = end - first >= distance;
  u64 word = inside ? simt::load_exchanged(&progress[end - distance]) : sum_known;
  while (simt::ballot(word == 0) != 0) {
    simt::pause();
    if (inside && word == 0) word = simt::load_exchanged(&progress[end - distance]);
  }
  return word;
}

TERRACE_DEVICE u64 warp_sum64(u64 value) {
  for (u32 step = warp_lanes / 2; step > 0; step /= 2) value += simt::shuffle_xor(value, step);
  return value;
}

// By one warp: the sum of the sizes of the tensor's blocks before this one, which then publishes its own sum.
TERRACE_DEVICE u64 look_back(u64* progress, u32 block, u32 first, u32 units) {
  u64 before = 0;
  for (u32 end = block; end > first; end -= smaller(warp_lanes, end - first)) {
    const u64 word = wait_for_progress(progress, end, first);
    const u32 sums = simt::ballot((word & sum_known) != 0);
    const u32 nearest = sums != 0 ? simt::lowest_bit(sums) : warp_lanes - 1;
    before += warp_sum64(lane_index() <= nearest ? word & progress_value : 0);
    if (sums != 0) break;
  }
  if (lane_index() == 0 && block > first)
    simt::store_exchanged(&progress[block], sum_known | (before + units));
  return before;
}

}  // namespace terrace::compression::cuda
