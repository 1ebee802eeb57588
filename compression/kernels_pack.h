// The loop that packs, for every unit: eight lines of 64 bytes at a time (a row), and besides each what keeps memory
// busy meanwhile. And asking for content before it is packed, in an order that one core's memory likes: hardware
// fetches on within a page only, so a single stream begins anew every 4 KiB (and waits for a page's translation
// then, which a virtual machine may have in small pages whatever the guest's are). Half a block, eight pages, is
// fetched while the half before it is packed, a line of each page beside a row:
//
//   packed   line  0 … 7 of page 0            8 … 15 of page 0            …
//   fetched  line  0 of pages 8 … 15          1 of pages 8 … 15           …
//
// Compressing f32 at 62% zeros from DRAM is a tenth faster so than with any distance in plain order
// (docs/decisions/007-compression-kernels.md). Internal linkage, for the reason given in kernels_vector.h.
#pragma once

#include "compression/kernels.h"

namespace terrace::compression {
namespace {

constexpr std::size_t row_lines = 8, row_bytes = row_lines * 64;

// Words::word packs 64 elements at `out` and moves it on; Words::tail fewer of them. besides.row() comes before each
// row, the last, incomplete one excepted.
template <typename Words, typename Besides>
[[gnu::always_inline]] inline std::size_t pack_rows(const std::byte* src, std::size_t n, std::uint64_t* mask,
                                                    std::byte* packed, Besides& besides) {
  constexpr std::size_t word_bytes = 64 * Words::width;
  std::byte* out = packed;
  const std::byte* const words_end = src + n / 64 * word_bytes;
  while (static_cast<std::size_t>(words_end - src) >= row_bytes) {
    besides.row();
#pragma GCC unroll 8
    for (std::size_t i = 0; i < row_bytes; i += word_bytes) *mask++ = Words::word(src + i, out);
    src += row_bytes;
  }
  for (; src != words_end; src += word_bytes) *mask++ = Words::word(src, out);
  if (n % 64 != 0) *mask = Words::tail(src, n % 64, out);
  return static_cast<std::size_t>(out - packed) / Words::width;
}

struct Nothing {
  [[gnu::always_inline]] inline void row() {}
};

// Fetches as `ahead` says, for packing that begins at `src`, into the second-level cache. Of a half that is not
// there whole, what would follow is fetched, too.
class Fetcher {
 public:
  Fetcher(const Ahead& ahead, const std::byte* src) : next_(ahead.next_bytes > 0 ? ahead.next : ahead.block) {
    const std::size_t row = static_cast<std::size_t>(src - ahead.block) / row_bytes;
    const bool first = row < half_rows && ahead.block_bytes > half;
    lines_ = (first ? ahead.block + half : next_) + row % half_rows * 64;
    rows_left_ = half_rows - row % half_rows;
  }

  // Inlined early: g++ 12 takes a function that only prefetches for one without effect, and drops its calls.
  [[gnu::always_inline]] inline void row() {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < pages; ++i) __builtin_prefetch(lines_ + i * page, 0, 2);
    lines_ += 64;
    if (--rows_left_ > 0) return;
    rows_left_ = half_rows;
    lines_ = next_;
  }

 private:
  static constexpr std::size_t page = 4096, pages = row_lines, half = page * pages, half_rows = half / row_bytes;
  const std::byte* next_;
  const std::byte* lines_;
  std::size_t rows_left_;
};

}  // namespace
}  // namespace terrace::compression
