#include "tiers/memory/dram_tier.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace terrace::tiers {
namespace {

constexpr std::uint64_t in_slabs(std::uint64_t bytes) noexcept {
  return (bytes + slab_bytes - 1) / slab_bytes * slab_bytes;
}

// Of the slab that `extent` has a part in, how many units it has there.
std::uint8_t units_in(std::uint64_t slab, const Extent& extent) noexcept {
  const std::uint64_t begin = std::max(extent.offset, slab * slab_bytes);
  const std::uint64_t end = std::min(extent.offset + whole_units(extent.bytes), (slab + 1) * slab_bytes);
  return static_cast<std::uint8_t>((end - begin) / ExtentAllocator::unit_bytes);
}

std::uint64_t first_slab(const Extent& extent) noexcept { return extent.offset / slab_bytes; }

std::uint64_t end_slab(const Extent& extent) noexcept {
  return in_slabs(extent.offset + whole_units(extent.bytes)) / slab_bytes;
}

}  // namespace

int DramTier::open(std::uint64_t capacity_bytes, std::size_t queue_depth, Memory memory) noexcept {
  if (const int error = open_space(capacity_bytes, queue_depth)) return error;
  memory_ = memory;
  const std::uint64_t capacity = space().capacity_bytes;
  if (memory == Memory::of_slabs) return open_slabs(capacity);
  const int error = mapping_.map(capacity);
  if (error == 0) arena_ = mapping_.data();
  return error;
}

int DramTier::open_slabs(std::uint64_t capacity_bytes) noexcept {
  const std::uint64_t bytes = in_slabs(capacity_bytes);
  if (const int error = mapping_.map(bytes + slab_bytes)) return error;
  if (const int error = table_.map(bytes / slab_bytes)) return error;
  units_ = reinterpret_cast<std::uint8_t*>(table_.data());
  const auto base = reinterpret_cast<std::uintptr_t>(mapping_.data());
  arena_ = mapping_.data() + (in_slabs(base) - base);
  ::madvise(arena_, bytes, MADV_HUGEPAGE);  // a wish: without huge pages it is slower
  return 0;
}

void DramTier::set_memory_source(MemorySource* source) noexcept {
  if (memory_ != Memory::of_slabs || arena_ == nullptr || filled_ > 0) return;
  if (source->adopt(arena_, in_slabs(space().capacity_bytes)) == 0) source_ = source;
}

// Else an extent's memory goes with it, so that the extents are what is taken.
std::uint64_t DramTier::bytes_on(Medium medium) const noexcept {
  if (medium != Medium::dram) return 0;
  return memory_ == Memory::of_slabs ? filled_ * slab_bytes : space().used_bytes;
}

int DramTier::carry_out(const Transfer& transfer) noexcept {
  std::byte* const place = arena_ + transfer.extent.offset;
  if (transfer.direction == Direction::write)
    std::memcpy(place, transfer.buffer, transfer.extent.bytes);
  else
    std::memcpy(transfer.buffer, place, transfer.extent.bytes);
  return 0;
}

// An extent takes memory as it is written; of slabs only the kernel's are like that.
int DramTier::back(const Extent& extent) noexcept {
  if (memory_ == Memory::of_extents) return 0;
  for (std::uint64_t s = first_slab(extent); s < end_slab(extent); ++s) {
    if (const int error = units_[s] == 0 ? fill(s) : 0) {
      if (s > first_slab(extent)) leave_slabs({extent.offset, s * slab_bytes - extent.offset});
      return error;
    }
    units_[s] = static_cast<std::uint8_t>(units_[s] + units_in(s, extent));
  }
  return 0;
}

void DramTier::discard(const Extent& extent) noexcept {
  if (memory_ == Memory::of_slabs) return leave_slabs(extent);
  ::madvise(arena_ + extent.offset, whole_units(extent.bytes), MADV_DONTNEED);
}

void DramTier::leave_slabs(const Extent& extent) noexcept {
  for (std::uint64_t s = first_slab(extent); s < end_slab(extent); ++s) {
    units_[s] = static_cast<std::uint8_t>(units_[s] - units_in(s, extent));
    if (units_[s] == 0) empty(s);
  }
}

int DramTier::fill(std::uint64_t number) noexcept {
  if (source_ != nullptr)
    if (const int error = source_->fill(slab(number))) return error;
  ++filled_;
  return 0;
}

void DramTier::empty(std::uint64_t number) noexcept {
  if (source_ != nullptr)
    source_->take(slab(number));
  else
    ::madvise(slab(number), slab_bytes, MADV_DONTNEED);
  --filled_;
}

}  // namespace terrace::tiers
