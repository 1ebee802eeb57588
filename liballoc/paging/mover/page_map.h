// What the kernel says of pages: which are there, and which a forked child shares (/proc/self/pagemap).
// Source: Documentation/admin-guide/mm/pagemap.rst, bit 56.
#pragma once

#include <cstddef>

#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

class PageMap {
 public:
  void open();
  void close();
  bool is_open() const { return fd_ >= 0; }

  // Whether the page at the address is there. Any thread.
  static bool has_page(const std::byte* address);
  // Which pages of a run or a frame are there. False: that cannot be told.
  bool present(const std::byte* run, PageSet* out) const;
  bool is_whole(const std::byte* run) const;
  // Whether all of `pages` are there and none is ours alone, as far as that can be told.
  bool all_shared(const std::byte* run, const PageSet& pages) const;

 private:
  struct Entries;
  bool read(const std::byte* run, Entries* out) const;

  int fd_ = -1;
};

}  // namespace terrace::liballoc
