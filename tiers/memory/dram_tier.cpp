#include "tiers/memory/dram_tier.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace terrace::tiers {
namespace {

constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

constexpr std::uint64_t in_huge_pages(std::uint64_t bytes) noexcept {
  return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

}  // namespace

int DramTier::open(std::uint64_t capacity_bytes, std::size_t queue_depth, Released released) noexcept {
  if (const int error = open_space(capacity_bytes, queue_depth)) return error;
  released_ = released;
  const std::uint64_t capacity = space().capacity_bytes;
  if (released == Released::returns) {
    const int error = mapping_.map(capacity);
    if (error == 0) arena_ = mapping_.data();
    return error;
  }
  if (const int error = mapping_.map(capacity + huge_page_bytes)) return error;
  const std::uint64_t begin = in_huge_pages(reinterpret_cast<std::uintptr_t>(mapping_.data()));
  arena_ = reinterpret_cast<std::byte*>(begin);
  ::madvise(arena_, capacity, MADV_HUGEPAGE);  // a wish: without huge pages it is slower
  return 0;
}

// With `returns` an extent's memory goes with it, so that the extents are what is taken.
std::uint64_t DramTier::bytes_on(Medium medium) const noexcept {
  if (medium != Medium::dram) return 0;
  const Space now = space();
  return released_ == Released::returns ? now.used_bytes
                                        : std::min(in_huge_pages(touched_bytes_), now.capacity_bytes);
}

int DramTier::carry_out(const Transfer& transfer) noexcept {
  std::byte* const place = arena_ + transfer.extent.offset;
  if (transfer.direction == Direction::write)
    std::memcpy(place, transfer.buffer, transfer.extent.bytes);
  else
    std::memcpy(transfer.buffer, place, transfer.extent.bytes);
  return 0;
}

// It takes memory as it is written.
int DramTier::back(const Extent& extent) noexcept {
  touched_bytes_ = std::max(touched_bytes_, extent.offset + whole_units(extent.bytes));
  return 0;
}

void DramTier::discard(const Extent& extent) noexcept {
  if (released_ == Released::returns)
    ::madvise(arena_ + extent.offset, whole_units(extent.bytes), MADV_DONTNEED);
  else if (space().used_bytes == 0)
    trim(0);
}

void DramTier::trim(std::uint64_t bytes) noexcept {
  if (released_ == Released::returns) return;
  if (bytes >= touched_bytes_) return;
  const std::uint64_t from = in_huge_pages(std::max(bytes, end_of_reserved()));
  if (from >= touched_bytes_) return;
  ::madvise(arena_ + from, touched_bytes_ - from, MADV_DONTNEED);
  touched_bytes_ = from;
}

}  // namespace terrace::tiers
