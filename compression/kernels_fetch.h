// Asking for a block's content before it is packed, in an order that one core's memory likes: hardware fetches on
// within a page only, so a single stream begins anew every 4 KiB (and pays for a page's translation then, which
// a virtual machine has in small pages whatever the guest's are). Half a block, eight pages, is fetched while the
// half before it is packed: the first line of each page, then the second of each.
//
//   packed   0 1 2 3 4 5 6 7 8 …                 (line by line)
//   fetched  page 0 1 … 7, page 0 1 … 7, …       (line 0 of each, line 1 of each, …)
//
// Compressing f32 at 62% zeros this way is a tenth faster than with any distance in plain order
// (docs/decisions/007-compression-kernels.md). Internal linkage, for the reason given in kernels_vector.h.
#pragma once

#include "compression/kernels.h"

namespace terrace::compression {
namespace {

// For packing that begins anywhere in a block and goes on a word of the mask, `width` lines of 64 bytes, at a
// time.
template <std::size_t width>
class Fetcher {
 public:
  Fetcher(const Ahead& ahead, const std::byte* src) : ahead_(ahead), offset_(src - ahead.block) {}

  // Inlined early: g++ 12 takes a function that only prefetches for one without effect, and drops its calls.
  [[gnu::always_inline]] inline void word() {
    const std::size_t line = offset_ % half / 64;
    const std::size_t at = line % pages * page + line / pages * 64;
    const bool first = offset_ < half;
    offset_ += width * 64;
    if (at + (first ? half : 0) >= (first ? ahead_.block_bytes : ahead_.next_bytes)) return;
    const std::byte* lines = (first ? ahead_.block + half : ahead_.next) + at;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < width; ++i) __builtin_prefetch(lines + i * page, 0, 2);
  }

 private:
  static constexpr std::size_t page = 4096, pages = 8, half = page * pages;
  const Ahead ahead_;
  std::size_t offset_;
};

}  // namespace
}  // namespace terrace::compression
