// Which pages of a range are mapped, asked of the kernel without touching one: PAGEMAP_SCAN (Linux 6.7, 0.3
// to 0.4 ms a GiB measured), before that /proc/self/pagemap.
//
// A page that was only read shows the kernel's page of zeroes: it is mapped and takes no memory, and a write
// to it is the kernel's business alone. Source: Documentation/admin-guide/mm/pagemap.rst.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::liballoc {

class PageScan {
 public:
  // 0 or errno. `by_entries`: as if the kernel had no PAGEMAP_SCAN.
  int open(bool by_entries = false);
  void close();
  bool is_open() const { return fd_ >= 0; }

  struct Region {
    std::byte* begin;
    std::byte* end;
    bool is_huge;  // mapped by huge pages
    bool is_zero;  // the kernel's page of zeroes; not told before Linux 6.7
  };
  // The next mapped region in [from, end); false when there is none, or when it cannot be told.
  bool next(std::byte* from, std::byte* end, Region* out);
  // Bytes that take memory in [begin, end).
  std::uint64_t count(std::byte* begin, std::byte* end);

 private:
  struct Found {
    std::uint64_t begin, end, categories;
  };
  static constexpr std::size_t batch = 256;
  bool fill(std::byte* from, std::byte* end);
  bool fill_by_entries(std::byte* from, std::byte* end);
  void take_entries(const std::uint64_t* entries, std::size_t pages);

  int fd_ = -1;
  bool has_scan_ = true;
  Found found_[batch] = {};
  std::size_t found_count_ = 0;
  std::size_t at_ = 0;
  std::uint64_t scanned_to_ = 0;  // found_ is complete up to here
  std::uint64_t asked_from_ = 1;
};

}  // namespace terrace::liballoc
