// The heap's range of addresses, in runs and pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

struct HeapRange {
  std::byte* base = nullptr;
  std::uint32_t runs = 0;

  std::size_t bytes() const { return std::size_t{runs} * run_bytes; }
  std::byte* address(std::uint32_t n) const { return base + std::size_t{n} * run_bytes; }
  std::byte* granule(std::uint32_t g) const { return base + std::size_t{g} * granule_bytes; }
  // May be past the last run: a frame's.
  std::uint32_t run_of(const void* address) const {
    return static_cast<std::uint32_t>(offset_of(address) / run_bytes);
  }
  // Within its run.
  std::uint32_t page_of(const void* address) const {
    return static_cast<std::uint32_t>(offset_of(address) % run_bytes / os::page_bytes);
  }
  std::size_t offset_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - base);
  }
};

}  // namespace terrace::liballoc
