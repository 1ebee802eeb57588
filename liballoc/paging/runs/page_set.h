// A set of the 512 pages of a run. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

inline constexpr std::uint32_t pages_per_run = run_bytes / os::page_bytes;

// Pages [first, end) of a run.
struct PageRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t count() const { return end - first; }
  std::size_t offset() const { return std::size_t{first} * os::page_bytes; }
  std::size_t bytes() const { return std::size_t{count()} * os::page_bytes; }
};
inline constexpr PageRange whole_run{0, pages_per_run};

class PageSet {
 public:
  static PageSet all() {
    PageSet set;
    set.words_.fill(~0ULL);
    return set;
  }
  static PageSet of(PageRange range) {
    PageSet set;
    set.add(range);
    return set;
  }

  bool has(std::uint32_t page) const { return (words_[page / 64] >> (page % 64) & 1) != 0; }
  void add(std::uint32_t page) { words_[page / 64] |= 1ULL << (page % 64); }
  void add(PageRange range) {
    for (std::uint32_t at = range.first; at < range.end; at = (at / 64 + 1) * 64)
      words_[at / 64] |= part(at, range);
  }
  void remove(std::uint32_t page) { words_[page / 64] &= ~(1ULL << (page % 64)); }

  bool is_empty() const { return *this == PageSet{}; }
  bool is_all() const { return *this == all(); }
  std::uint32_t count() const {
    std::uint32_t sum = 0;
    for (const std::uint64_t bits : words_) sum += static_cast<std::uint32_t>(std::popcount(bits));
    return sum;
  }

  // The first longest stretch of members from page `from` on; empty when there is none.
  PageRange next(std::uint32_t from) const {
    const std::uint32_t begin = seek(from, 0);
    return {begin, begin == pages_per_run ? pages_per_run : seek(begin, ~0ULL)};
  }

  PageSet& operator|=(const PageSet& o) {
    return each(o, [](std::uint64_t a, std::uint64_t b) { return a | b; });
  }
  PageSet& operator&=(const PageSet& o) {
    return each(o, [](std::uint64_t a, std::uint64_t b) { return a & b; });
  }
  PageSet& operator-=(const PageSet& o) {
    return each(o, [](std::uint64_t a, std::uint64_t b) { return a & ~b; });
  }
  friend PageSet operator|(PageSet a, const PageSet& b) { return a |= b; }
  friend PageSet operator&(PageSet a, const PageSet& b) { return a &= b; }
  friend PageSet operator-(PageSet a, const PageSet& b) { return a -= b; }
  friend bool operator==(const PageSet&, const PageSet&) = default;

 private:
  static constexpr std::size_t words = pages_per_run / 64;

  static std::uint64_t part(std::uint32_t at, PageRange range) {
    const std::uint32_t word = at / 64 * 64;
    const std::uint64_t below_end = range.end >= word + 64 ? ~0ULL : (1ULL << (range.end - word)) - 1;
    return below_end & (~0ULL << (at - word));
  }
  // The first page from `from` on that is a member (flip 0), or that is not (flip ~0).
  std::uint32_t seek(std::uint32_t from, std::uint64_t flip) const {
    for (std::uint32_t at = from; at < pages_per_run; at = (at / 64 + 1) * 64) {
      const std::uint64_t ahead = (words_[at / 64] ^ flip) & (~0ULL << (at % 64));
      if (ahead != 0) return at / 64 * 64 + static_cast<std::uint32_t>(std::countr_zero(ahead));
    }
    return pages_per_run;
  }
  template <typename Combine>
  PageSet& each(const PageSet& o, Combine combine) {
    for (std::size_t i = 0; i < words; ++i) words_[i] = combine(words_[i], o.words_[i]);
    return *this;
  }

  std::array<std::uint64_t, words> words_{};
};

}  // namespace terrace::liballoc
