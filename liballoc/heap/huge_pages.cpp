#include "liballoc/heap/huge_pages.h"

#include <cstring>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::size_t least_bytes = 2 * run_bytes;
constexpr unsigned probes = 32;
constexpr unsigned most_missing = 3;
constexpr std::uint32_t misses_before_rest = 4;
constexpr std::uint32_t looks_apart = 64;

bool follows_advice() {
  const auto fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, "/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC));
  if (fd < 0) return false;
  char text[64] = {};
  const long got = syscall(SYS_read, fd, text, sizeof(text) - 1);
  os::close_fd(fd);
  return got > 0 && std::strstr(text, "[madvise]") != nullptr;
}

bool has_page(std::byte* address) {
  unsigned char there = 0;
  return os::error_of(syscall(SYS_mincore, address, os::page_bytes, &there)) == 0 && (there & 1) != 0;
}

// By a sample that is spread over the block; a sparse one is known after a few looks.
bool is_dense(std::byte* begin, std::size_t bytes) {
  const std::size_t pages = bytes / os::page_bytes;
  unsigned missing = 0;
  for (unsigned i = 0; i < probes && missing <= most_missing; ++i)
    missing += has_page(begin + (pages - 1) * i / (probes - 1) * os::page_bytes) ? 0 : 1;
  return missing <= most_missing;
}

std::byte* first_run(std::byte* block) {
  const auto number = reinterpret_cast<std::uintptr_t>(block);
  return block + (run_bytes - number % run_bytes) % run_bytes;
}
std::byte* past_last_run(std::byte* end) { return end - reinterpret_cast<std::uintptr_t>(end) % run_bytes; }

}  // namespace

int HugePages::initialise(std::byte* base, std::size_t bytes, bool may_map) {
  base_ = base;
  may_map_ = may_map;
  if (!follows_advice()) return 0;
  const std::size_t words = bytes / run_bytes / 64 + 1;
  advised_ = static_cast<std::atomic<std::uint64_t>*>(
      os::map_anonymous(words * sizeof(std::uint64_t), PROT_READ | PROT_WRITE));
  if (advised_ == nullptr) return ENOMEM;
  is_on_ = true;
  return 0;
}

bool HugePages::is_advised(std::uint32_t run) const {
  return (advised_[run / 64].load(std::memory_order_relaxed) >> (run % 64) & 1) != 0;
}

// One entry for several sizes may lose what it knew of the other: that costs a look.
HugePages::Size& HugePages::size_of(std::size_t bytes) {
  const auto granules = static_cast<std::uint32_t>(bytes / granule_bytes);
  Size& size = sizes_[granules * 2654435761U >> 24];
  if (size.granules.exchange(granules, std::memory_order_relaxed) != granules) {
    size.misses.store(0, std::memory_order_relaxed);
    size.is_dense.store(false, std::memory_order_relaxed);
  }
  return size;
}

void HugePages::advise_runs(std::byte* begin, std::byte* end) {
  if (os::advise(begin, static_cast<std::size_t>(end - begin), MADV_HUGEPAGE) != 0) return;
  for (std::uint32_t run = run_of(begin); run < run_of(end); ++run)
    advised_[run / 64].fetch_or(1ULL << (run % 64), std::memory_order_relaxed);
}

// No advice takes back MADV_HUGEPAGE without forbidding huge pages; a new mapping does.
void HugePages::forget_runs(std::byte* begin, std::byte* end) {
  if (os::map_anonymous(static_cast<std::size_t>(end - begin), PROT_READ | PROT_WRITE, begin) == nullptr)
    return;
  for (std::uint32_t run = run_of(begin); run < run_of(end); ++run)
    advised_[run / 64].fetch_and(~(1ULL << (run % 64)), std::memory_order_relaxed);
}

void HugePages::prepare(std::byte* block, std::size_t bytes) {
  if (!is_on_ || bytes < least_bytes) return;
  std::byte* const begin = first_run(block);
  std::byte* const end = past_last_run(block + bytes);
  if (begin >= end) return;
  if (size_of(bytes).is_dense.load(std::memory_order_relaxed)) return advise_runs(begin, end);
  for (std::uint32_t run = run_of(begin); may_map_ && run < run_of(end); ++run)
    if (is_advised(run)) return forget_runs(begin, end);
}

bool HugePages::settle(std::byte* block, std::size_t bytes) {
  if (!is_on_ || bytes < least_bytes) return false;
  std::byte* const begin = first_run(block);
  std::byte* const end = past_last_run(block + bytes);
  if (begin >= end || is_advised(run_of(begin))) return false;
  Size& size = size_of(bytes);
  const std::uint32_t misses = size.misses.load(std::memory_order_relaxed);
  if (misses >= misses_before_rest && misses % looks_apart != 0) {
    size.misses.store(misses + 1, std::memory_order_relaxed);
    return false;
  }
  if (!is_dense(block, bytes)) {
    size.misses.store(misses + 1, std::memory_order_relaxed);
    return false;
  }
  size.is_dense.store(true, std::memory_order_relaxed);
  if (os::advise(block, bytes, MADV_DONTNEED) != 0) return false;
  advise_runs(begin, end);
  return true;
}

}  // namespace terrace::liballoc
