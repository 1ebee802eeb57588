// csr8's rows into a mask, from any bytes: the verdicts of decode() of csr8.cpp. A warp takes a row, each
// lane a column of it at a time: columns ascend if each is above the one before.
#pragma once

#include "compression/cuda/decode/decode_block.cuh"
#include "compression/cuda/encode/csr8_encode.cuh"

namespace terrace::compression::cuda {

static_assert(most_rows <= most_words);  // base[] has room for where each row's columns begin

// One row by one warp. `count` is any number; no more than a row's columns are looked at.
TERRACE_DEVICE bool read_row(const u8* columns, u32 count, u32 elements, u32* mask) {
  bool sound = count <= elements;
  for (u32 k = lane_index(); k < smaller(count, elements); k += warp_lanes) {
    const u32 column = columns[k];
    sound = sound && column < elements && (k == 0 || columns[k - 1] < column);
    simt::atomic_or(&mask[column / 32], 1U << column % 32);
  }
  return sound;
}

TERRACE_DEVICE bool is_zero_between(const u8* bytes, u32 begin, u32 end) {
  const u32 at = begin + simt::thread_index();  // padding of less than 8 bytes
  return simt::all_in_cta(at >= end || bytes[at] == 0);
}

// The mask that a csr8 extent describes. Returns the bytes read, 0 where they contradict themselves.
//
// A column that is refused may still set a bit: within its row's 256, which the mask's memory has.
TERRACE_DEVICE u32 read_rows(DecodeShared& shared, u32 bytes, u32 elements) {
  const u32 rows = ceil_div(elements, row_elements);
  if (bytes < 2 * rows) return 0;
  const auto* counts = reinterpret_cast<const u16*>(shared.extent);
  const u32 values = sum_before(shared, rows, [&](u32 row) { return u32{counts[row]}; });
  const Csr8Layout layout = csr8_layout(elements, values);
  if (bytes < layout.values) return 0;
  clear_mask(shared, rows * row_words);
  if (!is_zero_between(shared.extent, 2 * rows, layout.columns) ||
      !is_zero_between(shared.extent, layout.columns + values, layout.values))
    return 0;
  bool sound = true;
  for (u32 row = warp_index(); row < rows; row += warp_count())
    sound = read_row(shared.extent + layout.columns + shared.base[row], counts[row],
                     smaller(row_elements, elements - row * row_elements),
                     shared.half_words + row * row_elements / 32) &&
            sound;
  return simt::all_in_cta(sound) ? layout.values : 0;
}

}  // namespace terrace::compression::cuda
