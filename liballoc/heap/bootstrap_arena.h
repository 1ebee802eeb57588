// Memory that is never given back, for the few requests made while nothing else works yet: what libc asks for
// while the next allocator is being looked up, or in a fork's child handler. A block's size stands before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

class BootstrapArena {
 public:
  static constexpr std::size_t bytes = run_bytes;

  // `base`: that many bytes of writable memory.
  void begin(std::byte* base) { base_ = base; }
  bool owns(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_) < bytes;
  }
  // Under the heap's lock. nullptr: the arena is full.
  void* allocate(std::size_t wanted, std::size_t alignment) {
    const std::size_t align = std::max<std::size_t>(alignment, 16);
    const std::size_t start = (used_ + 16 + align - 1) / align * align;
    if (wanted > bytes || start + wanted > bytes) return nullptr;
    used_ = start + wanted;
    std::byte* const block = base_ + start;
    std::memcpy(block - sizeof(wanted), &wanted, sizeof(wanted));
    return block;
  }
  static std::size_t usable_bytes(const void* block) {
    std::size_t usable = 0;
    std::memcpy(&usable, static_cast<const std::byte*>(block) - sizeof(usable), sizeof(usable));
    return usable;
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;  // under the heap's lock
};

}  // namespace terrace::liballoc
