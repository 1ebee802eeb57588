// Where each page of a run lies, and what the tier has of it.
//
//   in_place   under its address
//   in_frame   in the run's staging frame, and not in place
//   stored     the run's extent holds the page as `sum` says; what is in place or in a frame may be newer
//
// A page that is in none of them was never written, or was all zeroes when it left: it reads as zeroes.
// Whether what is in place is newer than what is stored is found when the run leaves: the sums of its pages
// are made then anyway, since every byte on a drive is guarded by one, and a page whose sum is the stored one
// is clean (docs/decisions/018). Sums are XXH3-64 of the content, so an extent's older bytes are wrong by
// theirs.
//
// 192 bytes and 4 KiB a run, touched as runs are used. Belongs to who holds the gate.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "liballoc/base/checksum.h"
#include "liballoc/base/os.h"
#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

struct Pages {
  PageSet in_place;
  PageSet in_frame;
  PageSet stored;

  bool are_nowhere() const { return nowhere().is_all(); }
  // What must be read to be had.
  PageSet away() const { return stored - in_place - in_frame; }
  // What reads as zeroes.
  PageSet nowhere() const { return PageSet::all() - in_place - in_frame - stored; }
  // In the frame or on the tier.
  PageSet elsewhere() const { return (in_frame | stored) - in_place; }
};

// The sums of a run's pages, XXH3-64 of each. Those of pages that were never taken mean nothing.
struct PageSums {
  static constexpr std::uint64_t of_zeroes = 0x93d7'6fe1'48c6'89ba;  // of a page of them

  std::uint64_t of[pages_per_run];

  static std::uint64_t of_page(const std::byte* page) { return checksum(page, os::page_bytes, 0); }
  static bool is_zeroes(const std::byte* page) {
    std::uint64_t first = 0;
    std::memcpy(&first, page, sizeof(first));
    return first == 0 && std::memcmp(page, page + sizeof(first), os::page_bytes - sizeof(first)) == 0;
  }
  // The processor fetches ahead of a stream, but not from one page into the next.
  static void fetch_beginning(const std::byte* page) {
    constexpr std::size_t line = 64;
    for (std::size_t at = 0; at < os::page_bytes / 4; at += line) __builtin_prefetch(page + at);
  }
  // Of `pages`; page 0 would be at `data`. Those that are all zeroes.
  PageSet take(const std::byte* data, const PageSet& pages) {
    PageSet zeroes;
    for (PageRange range = pages.next(0); range.count() > 0; range = pages.next(range.end)) {
      for (std::uint32_t page = range.first; page < range.end; ++page) {
        const std::byte* const content = data + std::size_t{page} * os::page_bytes;
        if (page + 1 < range.end) fetch_beginning(content + os::page_bytes);
        const bool is_empty = is_zeroes(content);
        if (is_empty) zeroes.add(page);
        of[page] = is_empty ? of_zeroes : of_page(content);
      }
    }
    return zeroes;
  }
};

class PageTable {
 public:
  static_assert(sizeof(PageSums) % os::page_bytes == 0);

  int initialise(std::uint32_t runs) {
    pages_ =
        static_cast<Pages*>(os::map_anonymous(std::size_t{runs} * sizeof(Pages), PROT_READ | PROT_WRITE));
    sums_ = static_cast<PageSums*>(
        os::map_anonymous(std::size_t{runs} * sizeof(PageSums), PROT_READ | PROT_WRITE));
    return pages_ == nullptr || sums_ == nullptr ? ENOMEM : 0;
  }
  // Asks for the memory of run n's sums. False: there is none now. Without this, the first store would ask,
  // and at the limit of a cgroup it may wait for the very memory that the run's leaving gives back.
  bool have_sums(std::uint32_t n) {
    return os::advise(&sums_[n], sizeof(PageSums), os::advice_populate_write) != ENOMEM;
  }
  Pages& operator[](std::uint32_t n) { return pages_[n]; }
  const Pages& operator[](std::uint32_t n) const { return pages_[n]; }

  // Those of `pages`, whose sums were taken in the run's frame, that the tier does not have as they are;
  // their sums are noted, and they do not count as stored any more: they are to be written. `zeroes` are
  // not, as they need no copy, and what the tier has of them does not count either.
  PageSet take_dirty(std::uint32_t n, const PageSums& sums, const PageSet& pages, const PageSet& zeroes) {
    PageSet dirty;
    PageSet& stored = pages_[n].stored;
    each(pages, [&](std::uint32_t page) {
      if (stored.has(page) && sums_[n].of[page] == sums.of[page]) return true;
      sums_[n].of[page] = sums.of[page];
      dirty.add(page);
      return true;
    });
    stored -= dirty | zeroes;
    return dirty - zeroes;
  }
  // Whether what was read of `pages`, and summed, is what was stored.
  bool is_intact(std::uint32_t n, const PageSums& sums, const PageSet& pages) const {
    return each(pages, [&](std::uint32_t page) { return sums_[n].of[page] == sums.of[page]; });
  }
  // Whether what was read of `pages`, of which page 0 would be at `data`, is what was stored, where it was.
  bool is_intact(std::uint32_t n, const std::byte* data, const PageSet& pages) const {
    const PageSet wanted = pages & pages_[n].stored;
    for (PageRange range = wanted.next(0); range.count() > 0; range = wanted.next(range.end))
      if (!is_intact(n, data + range.offset(), range)) return false;
    return true;
  }
  // The same of the pages to `content` (of the first page on).
  bool is_intact(std::uint32_t n, const std::byte* content, PageRange range) const {
    for (std::uint32_t page = range.first; page < range.end; ++page, content += os::page_bytes) {
      if (page + 1 < range.end) PageSums::fetch_beginning(content + os::page_bytes);
      if (PageSums::of_page(content) != sums_[n].of[page]) return false;
    }
    return true;
  }

 private:
  // Whether it holds for each of them; asks no further than the first for which it does not.
  template <typename Holds>
  static bool each(const PageSet& pages, Holds holds) {
    for (PageRange range = pages.next(0); range.count() > 0; range = pages.next(range.end))
      for (std::uint32_t page = range.first; page < range.end; ++page)
        if (!holds(page)) return false;
    return true;
  }

  Pages* pages_ = nullptr;
  PageSums* sums_ = nullptr;
};

}  // namespace terrace::liballoc
