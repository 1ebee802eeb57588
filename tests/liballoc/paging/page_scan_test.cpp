// The kernel's answer about a range comes in batches; together they are all of it.
#include <sys/mman.h>
#include <sys/utsname.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>

#include "liballoc/base/os.h"
#include "liballoc/paging/page_scan.h"

namespace terrace::liballoc {
namespace {

// A range of which every `stride`-th stretch of `pages` pages is written; what lies between is read, so that
// the kernel's page of zeroes is there, or left alone.
class Touched {
 public:
  Touched(std::size_t stretches, std::size_t stride, std::size_t pages, bool reads_the_rest)
      : bytes_(stretches * stride * os::page_bytes),
        begin_(static_cast<std::byte*>(os::map_anonymous(bytes_, PROT_READ | PROT_WRITE))) {
    REQUIRE(begin_ != nullptr);
    REQUIRE(::madvise(begin_, bytes_, MADV_NOHUGEPAGE) == 0);
    for (std::size_t at = 0; reads_the_rest && at < bytes_; at += os::page_bytes)
      static_cast<void>(*static_cast<const volatile std::byte*>(begin_ + at));
    for (std::size_t i = 0; i < stretches; ++i)
      std::memset(begin_ + i * stride * os::page_bytes, 1, pages * os::page_bytes);
  }
  ~Touched() { ::munmap(begin_, bytes_); }
  Touched(const Touched&) = delete;
  Touched& operator=(const Touched&) = delete;
  std::byte* begin() const { return begin_; }
  std::byte* end() const { return begin_ + bytes_; }

 private:
  std::size_t bytes_;
  std::byte* begin_;
};

// Only PAGEMAP_SCAN tells the kernel's page of zeroes from memory.
bool kernel_tells_zeroes() {
  utsname system{};
  int major = 0;
  int minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 7);
}

// By one question about all, and by single ones, of which each goes on where the last one ended.
void finds(PageScan& scan, const Touched& touched, std::size_t stretches, std::size_t pages) {
  CHECK(scan.count(touched.begin(), touched.end()) == stretches * pages * os::page_bytes);
  PageScan::Region region{};
  std::size_t found = 0;
  for (std::byte* at = touched.begin(); scan.next(at, touched.end(), &region); at = region.end)
    found += region.is_zero ? 0 : 1;
  CHECK(found == stretches);
}

}  // namespace

TEST_CASE("What lies in more regions than one answer holds is counted as a whole") {
  const std::size_t stretches = GENERATE(255, 256, 257, 512, 513, 1500);
  const std::size_t pages = GENERATE(1, 3);
  const std::size_t gap = GENERATE(1, 4, 509);
  const bool reads_the_rest = GENERATE(false, true);
  if (reads_the_rest && !kernel_tells_zeroes()) return;
  const Touched touched(stretches, pages + gap, pages, reads_the_rest);
  PageScan scan;
  REQUIRE(scan.open() == 0);
  CAPTURE(stretches, pages, gap, reads_the_rest);
  finds(scan, touched, stretches, pages);
  scan.close();
}

TEST_CASE("A kernel without PAGEMAP_SCAN is asked page by page and what lies there is counted as a whole") {
  const std::size_t stretches = GENERATE(1, 60, 255, 256, 257, 513, 1500);
  const std::size_t pages = GENERATE(1, 3, 512, 1100);
  const std::size_t gap = GENERATE(1, 509);
  if (stretches * (pages + gap) > 70'000) return;
  const Touched touched(stretches, pages + gap, pages, false);
  PageScan scan;
  REQUIRE(scan.open(true) == 0);
  CAPTURE(stretches, pages, gap);
  finds(scan, touched, stretches, pages);
  scan.close();
}

}  // namespace terrace::liballoc
