#include "liballoc/paging/page_scan.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
namespace {

// Newer than Debian 12's kernel headers; from include/uapi/linux/fs.h of Linux 6.7.
struct ScanArguments {
  std::uint64_t size, flags, start, end, walk_end, regions, most_regions, most_pages;
  std::uint64_t inverted, all_of, any_of, returned;
};
constexpr unsigned long scan_request = _IOWR('f', 16, ScanArguments);
constexpr std::uint64_t present = 1 << 3;
constexpr std::uint64_t swapped = 1 << 4;
constexpr std::uint64_t zero = 1 << 5;
constexpr std::uint64_t huge = 1 << 6;

std::uint64_t number(const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address); }
std::byte* address(std::uint64_t number) {
  return reinterpret_cast<std::byte*>(number);
}  // NOLINT: the kernel's

}  // namespace

int PageScan::open(bool by_entries) {
  has_scan_ = !by_entries;
  fd_ = keep_descriptor(
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC)));
  return fd_ < 0 ? errno : 0;
}

void PageScan::close() {
  close_kept(fd_);
  fd_ = -1;
}

bool PageScan::fill(std::byte* from, std::byte* end) {
  found_count_ = at_ = 0;
  if (!has_scan_) return fill_by_entries(from, end);
  ScanArguments a{};
  a.size = sizeof(a);
  a.start = number(from);
  a.end = number(end);
  a.regions = reinterpret_cast<std::uintptr_t>(found_);
  a.most_regions = batch;
  a.any_of = present | swapped;
  a.returned = present | swapped | zero | huge;
  const long got = syscall(SYS_ioctl, fd_, scan_request, &a);
  if (got < 0) {
    has_scan_ = false;
    return fill_by_entries(from, end);
  }
  found_count_ = static_cast<std::size_t>(got);
  scanned_to_ = a.walk_end;
  return true;
}

// One entry of eight bytes for each page. The zero page cannot be told from memory here.
bool PageScan::fill_by_entries(std::byte* from, std::byte* end) {
  std::uint64_t entries[512];
  scanned_to_ = number(from);
  while (scanned_to_ < number(end) && found_count_ < batch) {
    const std::size_t pages = std::min<std::size_t>(512, (number(end) - scanned_to_) / os::page_bytes);
    const long bytes = static_cast<long>(pages * sizeof(entries[0]));
    if (syscall(SYS_pread64, fd_, entries, bytes, scanned_to_ / os::page_bytes * sizeof(entries[0])) != bytes)
      return false;
    take_entries(entries, pages);
  }
  return true;
}

// Of the pages from scanned_to_ on, as many as there is room for.
void PageScan::take_entries(const std::uint64_t* entries, std::size_t pages) {
  for (std::size_t i = 0; i < pages; ++i, scanned_to_ += os::page_bytes) {
    if ((entries[i] >> 62) == 0) continue;
    const bool goes_on = found_count_ > 0 && found_[found_count_ - 1].end == scanned_to_;
    if (!goes_on && found_count_ == batch) return;
    if (!goes_on) found_[found_count_++] = {scanned_to_, 0, present};
    found_[found_count_ - 1].end = scanned_to_ + os::page_bytes;
  }
}

bool PageScan::next(std::byte* from, std::byte* end, Region* out) {
  bool is_known = number(from) == asked_from_;
  while (is_known || fill(from, end)) {
    for (; at_ < found_count_; ++at_) {
      const Found& f = found_[at_];
      if (f.end <= number(from)) continue;
      *out = {address(std::max(f.begin, number(from))), address(f.end), (f.categories & huge) != 0,
              (f.categories & zero) != 0};
      ++at_;
      asked_from_ = f.end;  // the next question, if it goes on here, needs no system call
      return true;
    }
    // What was known may end just where this question begins; an answer that is no further is none.
    const bool is_further = is_known || scanned_to_ > number(from);
    if (scanned_to_ >= number(end) || !is_further) break;
    from = address(std::max(scanned_to_, number(from)));
    is_known = false;
  }
  asked_from_ = 1;
  return false;
}

std::uint64_t PageScan::count(std::byte* begin, std::byte* end) {
  std::uint64_t bytes = 0;
  asked_from_ = 1;
  Region region{};
  for (std::byte* at = begin; next(at, end, &region); at = region.end)
    bytes += region.is_zero ? 0 : static_cast<std::uint64_t>(std::min(region.end, end) - region.begin);
  return bytes;
}

}  // namespace terrace::liballoc
