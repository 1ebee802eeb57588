#include "liballoc/paging/mover/page_map.h"

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t is_present = 1ULL << 63;
constexpr std::uint64_t present_or_swapped = 3ULL << 62;
constexpr std::uint64_t is_exclusive = 1ULL << 56;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

struct PageMap::Entries {
  std::uint64_t of[pages_per_run];
};

void PageMap::open() {
  fd_ = keep_descriptor(
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC)));
}

void PageMap::close() {
  close_kept(fd_);
  fd_ = -1;
}

bool PageMap::has_page(const std::byte* address) {
  unsigned char resident = 0;
  const int error = os::error_of(
      syscall(SYS_mincore, number(address) & ~std::uint64_t{os::page_bytes - 1}, os::page_bytes, &resident));
  return error == 0 && (resident & 1) != 0;
}

bool PageMap::read(const std::byte* run, Entries* out) const {
  const auto offset = static_cast<long>(number(run) / os::page_bytes * sizeof(std::uint64_t));
  return syscall(SYS_pread64, fd_, out->of, sizeof(out->of), offset) == sizeof(out->of);
}

bool PageMap::present(const std::byte* run, PageSet* out) const {
  Entries entries;
  if (!read(run, &entries)) return false;
  PageSet set;
  for (std::uint32_t page = 0; page < pages_per_run; ++page)
    if ((entries.of[page] & present_or_swapped) != 0) set.add(page);
  *out = set;
  return true;
}

bool PageMap::is_whole(const std::byte* run) const {
  PageSet there;
  return present(run, &there) && there.is_all();
}

bool PageMap::all_shared(const std::byte* run, const PageSet& pages) const {
  Entries entries;
  if (!read(run, &entries)) return false;
  for (std::uint32_t page = 0; page < pages_per_run; ++page) {
    if (!pages.has(page)) continue;
    if ((entries.of[page] & is_present) == 0 || (entries.of[page] & is_exclusive) != 0) return false;
  }
  return true;
}

}  // namespace terrace::liballoc
