// csr8 on one block in shared memory: of each row of 256 elements the count, and the values' columns, placed
// by the rank that base[] knows for each word of the mask.
#pragma once

#include "compression/cuda/masks.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 row_elements = 256;
inline constexpr u32 row_words = row_elements / 64;
inline constexpr u32 most_rows = most_words / row_words;

// Where the columns and the values of so many elements and values begin.
struct Csr8Layout {
  u32 rows, columns, values;
};
TERRACE_DEVICE Csr8Layout csr8_layout(u32 elements, u32 values) {
  const u32 rows = ceil_div(elements, row_elements), columns = rounded_up(2 * rows, 8);
  return {rows, columns, rounded_up(columns + values, 8)};
}

// The rows' counts, and zeros up to the columns.
TERRACE_DEVICE void write_row_counts(const Csr8Layout& layout, const u16* base, u32 words, u32 values,
                                     u8* to) {
  auto* counts = reinterpret_cast<u16*>(to);
  for (u32 row = simt::thread_index(); row < layout.columns / 2; row += simt::thread_count()) {
    const u32 next = (row + 1) * row_words, end = next < words ? base[next] : values;
    counts[row] = static_cast<u16>(row < layout.rows ? end - base[row * row_words] : 0);
  }
}

// The columns: a warp takes a word of the mask, each lane two of its elements.
TERRACE_DEVICE void write_columns(const u64* mask, u32 words, const u16* base, u8* columns) {
  for (u32 w = warp_index(); w < words; w += warp_count()) {
    const u64 word = mask[w];
    for (u32 bit = lane_index(); bit < 64; bit += warp_lanes)
      if ((word >> bit & 1) != 0)
        columns[base[w] + simt::bits_in(bits_before(word, bit))] = static_cast<u8>(64 * w + bit);
  }
}

// Everything in front of the values. A barrier has to follow.
TERRACE_DEVICE void write_rows(const u64* mask, u32 elements, const u16* base, u32 values, u8* to) {
  const u32 words = ceil_div(elements, 64);
  const Csr8Layout layout = csr8_layout(elements, values);
  write_row_counts(layout, base, words, values, to);
  write_columns(mask, words, base, to + layout.columns);
  const u32 padding = layout.columns + values + simt::thread_index();
  if (padding < layout.values) to[padding] = 0;
}

}  // namespace terrace::compression::cuda
