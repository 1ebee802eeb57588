// The loop that packs, for every unit: eight lines of 64 bytes at a time (a row), and besides each what keeps
// memory busy meanwhile. And asking for content before it is packed, in one of two orders. Where hardware
// fetches on within a page only, a single stream begins anew every 4 KiB (and waits for a page's translation
// then, which a virtual machine may have in small pages whatever the guest's are): half a block, eight pages,
// is fetched while the half before it is packed, a line of each page beside a row (SideBySide).
//
//   packed   line  0 … 7 of page 0            8 … 15 of page 0            …
//   fetched  line  0 of pages 8 … 15          1 of pages 8 … 15           …
//
// On a Sapphire Rapids, compressing f32 at 62% zeros from DRAM is a tenth faster so than with any distance in
// plain order; on a Zen 5 it takes 1.4 times as long as in plain order (InOrder), see
// docs/decisions/007-compression-kernels.md. Internal linkage, for the reason given in vector.h.
#pragma once

#include "compression/kernels/kernels.h"

namespace terrace::compression {
namespace {

constexpr std::size_t row_lines = 8, row_bytes = row_lines * 64, rows_of_block = 65536 / row_bytes;

struct SideBySide {
  static constexpr std::size_t apart = 4096, step = 64;  // of a row's lines; from one row to the next
  static constexpr std::size_t run_rows = 64;            // half a block
  static constexpr std::size_t scratch_lead = 512;       // packed values' lines fetched for writing
  static constexpr std::size_t gap_rows = 16;            // of a block's, fetched between two blocks
  static constexpr std::size_t group_rows = 16;          // and between its groups
  static constexpr bool by_sixteen = false;              // see Meanwhile
};
struct InOrder {
  static constexpr std::size_t apart = 64, step = row_bytes;
  static constexpr std::size_t run_rows = rows_of_block;
  static constexpr std::size_t scratch_lead = 0;  // none
  static constexpr std::size_t gap_rows = 4;
  static constexpr std::size_t group_rows = 0;
  static constexpr bool by_sixteen = true;
};

// Words::word packs 64 elements at `out` and moves it on; Words::tail fewer of them. besides.row(out) comes
// before each row, the last, incomplete one excepted.
template <typename Words, typename Besides>
[[gnu::always_inline]] inline std::size_t pack_rows(const std::byte* src, std::size_t n, std::uint64_t* mask,
                                                    std::byte* packed, Besides& besides) {
  constexpr std::size_t word_bytes = 64 * Words::width;
  std::byte* out = packed;
  const std::byte* const words_end = src + n / 64 * word_bytes;
  while (static_cast<std::size_t>(words_end - src) >= row_bytes) {
    besides.row(out);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < row_bytes; i += word_bytes) *mask++ = Words::word(src + i, out);
    src += row_bytes;
  }
  for (; src != words_end; src += word_bytes) *mask++ = Words::word(src, out);
  if (n % 64 != 0) *mask = Words::tail(src, n % 64, out);
  return static_cast<std::size_t>(out - packed) / Words::width;
}

struct Nothing {
  [[gnu::always_inline]] inline void row(const std::byte*) {}
};

// Fetches as `ahead` says, and notes there how far it is.
//
// Between two blocks there is work that reads and writes nothing in memory, some 300 ns of 4.5 us. So that
// memory does not wait for it, gap_rows of the block's 128 are fetched there (fetch_in_half_gap) instead of
// beside a row that is packed. Coding the groups of a block is such work, too, a quarter of zvc_exp's time:
// group_rows more are fetched there (fetch_in_groups).
template <typename Order>
class Fetcher {
 public:
  explicit Fetcher(Ahead& ahead)
      : ahead_(ahead), until_pause_(ahead.until_pause), period_(ahead.in_groups ? group_period : gap_period) {
    aim();
  }
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
      until_pause_ = period_;
    else
      fetch();
  }
  [[gnu::always_inline]] inline void fetch() {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < row_lines; ++i) __builtin_prefetch(lines_ + i * Order::apart);
    lines_ += Order::step;
    if (--rows_left_ > 0) return;
    ahead_.rows += begun_;
    aim();
  }

 private:
  static constexpr std::size_t gap_period = rows_of_block / Order::gap_rows;
  static constexpr std::size_t group_period = rows_of_block / (Order::gap_rows + Order::group_rows);

  // To where a run of rows (half a block, or a block) begins, or goes on; to the block itself, where it does
  // no harm, if there is no such run.
  void aim() {
    constexpr std::size_t runs = rows_of_block / Order::run_rows;  // of a block
    const std::size_t run = ahead_.rows / Order::run_rows, in_run = ahead_.rows % Order::run_rows;
    const std::size_t offset = run % runs * Order::run_rows * row_bytes;
    const bool here = run < runs;
    const bool there = run < 2 * runs && offset < (here ? ahead_.block_bytes : ahead_.next_bytes);
    lines_ = (there ? (here ? ahead_.block : ahead_.next) + offset : ahead_.block) + in_run * Order::step;
    rows_left_ = begun_ = Order::run_rows - in_run;
  }

  Ahead& ahead_;
  const std::byte* lines_ = nullptr;
  std::size_t rows_left_ = 0, begun_ = 0;
  std::size_t until_pause_;
  const std::size_t period_;
};

// Half of what is fetched between two blocks.
template <typename Order>
[[gnu::always_inline]] inline void fetch_in_half_gap(Ahead& ahead) {
  Fetcher<Order> fetcher(ahead);
  for (std::size_t i = 0; i < Order::gap_rows / 2; ++i) fetcher.fetch();
}

[[maybe_unused, gnu::always_inline]] inline void fetch_in_half_gap(Ahead& ahead) {
  if (ahead.block == nullptr) return;
  if (ahead.in_order)
    fetch_in_half_gap<InOrder>(ahead);
  else
    fetch_in_half_gap<SideBySide>(ahead);
}

// What is fetched while the groups [begin, end) of the block are coded, in bytes.
template <typename Order>
[[gnu::always_inline]] inline void fetch_in_groups(Ahead& ahead, std::size_t begin, std::size_t end) {
  if constexpr (Order::group_rows > 0) {
    constexpr std::size_t apart = rows_of_block * row_bytes / Order::group_rows;
    Fetcher<Order> fetcher(ahead);
    for (std::size_t i = begin / apart; i < end / apart; ++i) fetcher.fetch();
  }
}

[[maybe_unused, gnu::always_inline]] inline void fetch_in_groups(Ahead& ahead, std::size_t begin,
                                                                 std::size_t end) {
  if (ahead.block == nullptr) return;
  if (ahead.in_order)
    fetch_in_groups<InOrder>(ahead, begin, end);
  else
    fetch_in_groups<SideBySide>(ahead, begin, end);
}

}  // namespace
}  // namespace terrace::compression
