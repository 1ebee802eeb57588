// A private anonymous mapping that is given back when its owner goes.
//
// The tiers live inside a preloaded allocator, so they cannot use malloc for their own tables: every table
// and arena is one of these. Pages are NORESERVE and arrive zeroed on first touch, so a table sized for the
// largest pool costs only what is used of it. The default state is empty and constant-initialised.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace terrace::tiers {

class Mapping {
 public:
  constexpr Mapping() = default;
  ~Mapping() { unmap(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // 0 or errno; EBUSY when something is mapped already.
  int map(std::uint64_t bytes) noexcept {
    if (base_ != nullptr) return EBUSY;
    void* base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return errno;
    base_ = static_cast<std::byte*>(base);
    bytes_ = bytes;
    return 0;
  }

  void unmap() noexcept {
    if (base_ != nullptr) ::munmap(base_, bytes_);
    base_ = nullptr;
    bytes_ = 0;
  }

  std::byte* data() const noexcept { return base_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace terrace::tiers
