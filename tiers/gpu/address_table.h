// What lies where: the ranges a device has given out, its frames, and which frame is mapped at which address.
//
// Both implementations of device.h ask it before they touch anything, so that both refuse the same mistakes:
// CUDA itself would let a frame be mapped twice, and released while it is mapped. Pure bookkeeping, no system
// call.
//
// Not thread-safe: the device that owns it serialises. Nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu {

class AddressTable {
 public:
  int add_range(const std::byte* base, std::uint64_t bytes) noexcept;            // ENOMEM
  int check_release(const std::byte* base, std::uint64_t bytes) const noexcept;  // EINVAL; EBUSY: mapped
  void remove_range(const std::byte* base) noexcept;

  int add_frame(Frame frame) noexcept;            // ENOMEM
  int check_destroy(Frame frame) const noexcept;  // EINVAL: unknown; EBUSY: mapped
  void remove_frame(Frame frame) noexcept;

  // All frames from `at` on, or none: EINVAL, EEXIST, EBUSY (a frame is mapped elsewhere), ENOMEM.
  int map(const std::byte* at, std::span<const Frame> frames) noexcept;
  int check_unmap(const std::byte* at, std::uint64_t bytes) const noexcept;  // EINVAL, ENOENT
  void unmap(const std::byte* at, std::uint64_t bytes) noexcept;

  // Whether [at, at + bytes) may be touched, as far as is known here: outside the ranges yes, inside where
  // mapped.
  bool accessible(const void* at, std::uint64_t bytes) const noexcept;
  bool empty() const noexcept { return ranges_.empty() && frames_.empty(); }

 private:
  using Key = std::pair<std::uint64_t, Place>;
  int check_map(const std::byte* at, std::span<const Frame> frames) const noexcept;
  bool in_one_range(const std::byte* at, std::uint64_t bytes) const noexcept;
  bool anything_mapped(const std::byte* at, std::uint64_t bytes) const noexcept;
  bool all_mapped(const std::byte* at, std::uint64_t bytes) const noexcept;

  std::map<const std::byte*, std::uint64_t> ranges_;  // base, bytes
  std::map<Key, bool> frames_;                        // whether it is mapped
  std::map<const std::byte*, Frame> mapped_;
};

}  // namespace terrace::tiers::gpu
