// Where a DRAM tier has the memory of its slabs from, and to whom it gives it back.
//
// Whoever keeps memory in huge pieces anyway can hand one over without the kernel clearing it. A tier without
// a source takes what the kernel has.
//
// The tier calls these from reserve() and release(), under whatever lock its caller holds there: they must
// not come back to the tier. Nothing here allocates or throws.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::tiers {

inline constexpr std::uint64_t slab_bytes = std::uint64_t{2} << 20;

class MemorySource {
 public:
  // Once, before all others: the tier's slabs lie in this address space, aligned to slab_bytes, without any
  // memory yet. From here on nobody touches a slab that was not filled. 0; or an errno value, and then the
  // tier takes the kernel's memory.
  virtual int adopt(std::byte* arena, std::uint64_t bytes) noexcept = 0;
  // Puts slab_bytes of memory with any content under an address that has none. 0 or an errno value.
  virtual int fill(std::byte* slab) noexcept = 0;
  // Takes the memory away, whose content is nobody's any more. Nothing is there afterwards, in any case.
  virtual void take(std::byte* slab) noexcept = 0;

 protected:
  constexpr MemorySource() = default;
  ~MemorySource() = default;
};

}  // namespace terrace::tiers
