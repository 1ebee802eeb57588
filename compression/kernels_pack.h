// The loop that packs, for every unit: eight lines of 64 bytes at a time (a row), and besides each what keeps
// memory busy meanwhile. And asking for content before it is packed, in an order that one core's memory
// likes: hardware fetches on within a page only, so a single stream begins anew every 4 KiB (and waits for a
// page's translation then, which a virtual machine may have in small pages whatever the guest's are). Half a
// block, eight pages, is fetched while the half before it is packed, a line of each page beside a row:
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

constexpr std::size_t row_lines = 8, row_bytes = row_lines * 64, rows_of_block = 65536 / row_bytes;
constexpr std::size_t gap_rows = 16;

// Words::word packs 64 elements at `out` and moves it on; Words::tail fewer of them. besides.row() comes
// before each row, the last, incomplete one excepted.
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

// Fetches as `ahead` says, into the second-level cache, and notes there how far it is.
//
// Between two blocks there is work that reads and writes nothing in memory, some 300 ns of 4.5 us. So that
// memory does not wait for it, gap_rows of the block's 128 are fetched there (fetch_in_gap) instead of beside
// a row that is packed.
class Fetcher {
 public:
  explicit Fetcher(Ahead& ahead) : ahead_(ahead), until_pause_(ahead.until_pause) { aim(); }
  ~Fetcher() {
    ahead_.rows += begun_ - rows_left_;
    ahead_.until_pause = until_pause_;
  }
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  // These are inlined early: g++ 12 takes a function that only prefetches for one without effect, and drops
  // its calls.
  [[gnu::always_inline]] inline void row() {
    if (--until_pause_ == 0)
      until_pause_ = rows_of_block / gap_rows;
    else
      fetch();
  }
  [[gnu::always_inline]] inline void fetch() {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < pages; ++i) __builtin_prefetch(lines_ + i * page, 0, 2);
    lines_ += 64;
    if (--rows_left_ > 0) return;
    ahead_.rows += begun_;
    aim();
  }

 private:
  // To where half a block begins, or goes on; to the block itself, where it does no harm, if there is no such
  // half.
  void aim() {
    const std::size_t half = ahead_.rows / half_rows, in_half = ahead_.rows % half_rows;
    const std::size_t offset = half % 2 * half_bytes;
    const bool here = half < 2;
    const bool there = half < 4 && offset < (here ? ahead_.block_bytes : ahead_.next_bytes);
    lines_ = (there ? (here ? ahead_.block : ahead_.next) + offset : ahead_.block) + in_half * 64;
    rows_left_ = begun_ = half_rows - in_half;
  }

  static constexpr std::size_t page = 4096, pages = row_lines, half_bytes = page * pages,
                               half_rows = half_bytes / row_bytes;
  Ahead& ahead_;
  const std::byte* lines_ = nullptr;
  std::size_t rows_left_ = 0, begun_ = 0;
  std::size_t until_pause_;
};

[[maybe_unused, gnu::always_inline]] inline void fetch_in_gap(Ahead& ahead, std::size_t rows) {
  if (ahead.block == nullptr) return;
  Fetcher fetcher(ahead);
  for (std::size_t i = 0; i < rows; ++i) fetcher.fetch();
}

}  // namespace
}  // namespace terrace::compression
