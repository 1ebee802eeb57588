#include "liballoc/agent/client/areas.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::size_t area_bytes = wire::max_segment_bytes;
constexpr std::size_t reserved_bytes = 3 * area_bytes;
constexpr int area_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

bool layout_is_sound(const wire::Welcome& welcome) noexcept {
  const std::uint64_t capacity = welcome.ring_capacity;
  if (capacity == 0 || capacity > wire::max_ring_capacity || (capacity & (capacity - 1)) != 0) return false;
  // A daemon from before there were so many counters has them where its ring is.
  const bool are_apart = welcome.ring_offset >= welcome.stats_offset + sizeof(wire::JobStats) ||
                         welcome.stats_offset >= welcome.ring_offset + wire::ring_bytes(capacity);
  return are_apart && welcome.segment_bytes <= area_bytes &&
         wire::fits(welcome.stats_offset, sizeof(wire::JobStats), welcome.segment_bytes) &&
         wire::fits(welcome.ring_offset, wire::ring_bytes(capacity), welcome.segment_bytes);
}

// Without the seal, whoever holds the other end could cut the file short under our stores.
bool cannot_shrink(int fd, std::uint64_t bytes) noexcept {
  struct stat status;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(fd, &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) >= bytes;
}

void copy_stats(const wire::JobStats& from, wire::JobStats& to) noexcept {
  for (std::size_t i = 0; i < wire::stat_slots; ++i)
    to.words[i].store(from.words[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace

int Areas::reserve() noexcept {
  if (areas_ != nullptr) return 0;
  void* memory = ::mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, area_flags, -1, 0);
  if (memory == MAP_FAILED) return ENOMEM;
  areas_ = static_cast<std::byte*>(memory);
  return 0;
}

int Areas::use_segment(const wire::Welcome& welcome, int segment_fd) noexcept {
  if (!layout_is_sound(welcome) || !cannot_shrink(segment_fd, welcome.segment_bytes)) return EBADMSG;
  const std::size_t next = &view() == &views_[0] ? 1 : 0;
  std::byte* base = areas_ + next * area_bytes;
  void* mapped =
      ::mmap(base, welcome.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, segment_fd, 0);
  if (mapped == MAP_FAILED) return errno;
  // All of it now: at the limit of a cgroup, a store to a page that is not there may wait for whoever makes
  // room, and that is who stores. On kernels before 5.14, or without memory, the stores ask for it.
  os::advise(mapped, welcome.segment_bytes, os::advice_populate_write);
  auto* fresh_stats = reinterpret_cast<wire::JobStats*>(base + welcome.stats_offset);
  auto* ring = reinterpret_cast<wire::EventRing*>(base + welcome.ring_offset);
  copy_stats(*stats(), *fresh_stats);
  views_[next] = {fresh_stats, wire::RingWriter(ring, wire::slots_of(ring), welcome.ring_capacity)};
  view_.store(&views_[next], std::memory_order_release);
  return 0;
}

// Private zero pages take the segment's place.
void Areas::detach() noexcept {
  if (areas_ == nullptr) return;
  void* fresh = ::mmap(areas_, reserved_bytes, PROT_READ | PROT_WRITE, area_flags | MAP_FIXED, -1, 0);
  if (fresh != MAP_FAILED) return;
  views_[0] = {&unstarted_stats_, wire::RingWriter(&unstarted_ring_, unstarted_slots_, 4)};
  view_.store(&views_[0], std::memory_order_release);
}

}  // namespace terrace::liballoc
