// See address_table.h.
#include "tiers/gpu/address_table.h"

#include <cerrno>

#include "tiers/gpu/device.h"
#include "tiers/gpu/without_throwing.h"

namespace terrace::tiers::gpu {
namespace {

// Whole frames, at least one, and no wrap around the end of the address space.
bool whole_frames(const std::byte* at, std::uint64_t bytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return bytes != 0 && address % frame_size == 0 && bytes % frame_size == 0 && address + bytes > address;
}

}  // namespace

int AddressTable::add_range(const std::byte* base, std::uint64_t bytes) noexcept {
  return without_throwing([&] { return ranges_.emplace(base, bytes), 0; });
}

int AddressTable::check_release(const std::byte* base, std::uint64_t bytes) const noexcept {
  const auto range = ranges_.find(base);
  if (range == ranges_.end() || range->second != bytes) return EINVAL;
  return anything_mapped(base, bytes) ? EBUSY : 0;
}

void AddressTable::remove_range(const std::byte* base) noexcept { ranges_.erase(base); }

int AddressTable::add_frame(Frame frame) noexcept {
  return without_throwing([&] { return frames_.emplace(Key{frame.handle, frame.place}, false), 0; });
}

int AddressTable::check_destroy(Frame frame) const noexcept {
  const auto found = frames_.find({frame.handle, frame.place});
  if (found == frames_.end()) return EINVAL;
  return found->second ? EBUSY : 0;
}

void AddressTable::remove_frame(Frame frame) noexcept { frames_.erase({frame.handle, frame.place}); }

bool AddressTable::in_one_range(const std::byte* at, std::uint64_t bytes) const noexcept {
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return false;
  --range;
  return at + bytes <= range->first + range->second;
}

bool AddressTable::anything_mapped(const std::byte* at, std::uint64_t bytes) const noexcept {
  const auto first = mapped_.lower_bound(at);
  return first != mapped_.end() && first->first < at + bytes;
}

bool AddressTable::all_mapped(const std::byte* at, std::uint64_t bytes) const noexcept {
  auto next = mapped_.find(at);
  for (std::uint64_t done = 0; done < bytes; done += frame_size, ++next) {
    if (next == mapped_.end() || next->first != at + done) return false;
  }
  return true;
}

int AddressTable::check_map(const std::byte* at, std::span<const Frame> frames) const noexcept {
  const std::uint64_t bytes = frames.size() * frame_size;
  if (!whole_frames(at, bytes) || !in_one_range(at, bytes)) return EINVAL;
  if (anything_mapped(at, bytes)) return EEXIST;
  for (const Frame& frame : frames) {
    if (const int error = check_destroy(frame); error != 0) return error;
  }
  return 0;
}

int AddressTable::map(const std::byte* at, std::span<const Frame> frames) noexcept {
  if (const int error = check_map(at, frames); error != 0) return error;
  for (std::size_t done = 0; done < frames.size(); ++done) {
    int error = check_destroy(frames[done]);  // EBUSY: it is in `frames` twice
    if (error == 0) {
      error = without_throwing([&] { return mapped_.emplace(at + done * frame_size, frames[done]), 0; });
    }
    if (error != 0) {
      unmap(at, done * frame_size);
      return error;
    }
    frames_.find({frames[done].handle, frames[done].place})->second = true;
  }
  return 0;
}

int AddressTable::check_unmap(const std::byte* at, std::uint64_t bytes) const noexcept {
  if (!whole_frames(at, bytes) || !in_one_range(at, bytes)) return EINVAL;
  return all_mapped(at, bytes) ? 0 : ENOENT;
}

void AddressTable::unmap(const std::byte* at, std::uint64_t bytes) noexcept {
  for (auto each = mapped_.lower_bound(at); each != mapped_.end() && each->first < at + bytes;) {
    frames_.find({each->second.handle, each->second.place})->second = false;
    each = mapped_.erase(each);
  }
}

bool AddressTable::accessible(const void* at, std::uint64_t bytes) const noexcept {
  const auto* const begin = static_cast<const std::byte*>(at);
  auto range = ranges_.upper_bound(begin + bytes - 1);
  if (range == ranges_.begin()) return true;
  --range;
  if (range->first + range->second <= begin) return true;
  if (!in_one_range(begin, bytes)) return false;
  const auto ahead = static_cast<std::uint64_t>(begin - range->first) % frame_size;
  return all_mapped(begin - ahead, (ahead + bytes + frame_size - 1) / frame_size * frame_size);
}

}  // namespace terrace::tiers::gpu
