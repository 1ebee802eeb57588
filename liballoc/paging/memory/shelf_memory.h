// Memory of what is kept compressed in DRAM: the same that data lies in, handed over in whole runs.
//
// What is kept grows and shrinks with each training step. Were its memory given back to the kernel and taken
// anew each time, the kernel would clear all of it twice a step. So a slab of the tier gets the memory of a
// free frame, moved and not copied, and a slab in which nothing lies any more becomes a free frame. The
// budget is divided anew with each.
//
// Only with the mover that moves pages (mover.h): where mappings move, they are hidden from forked children,
// who read what is kept where it lay. There the tier takes the kernel's memory.
//
// Belongs to who holds the gate. The tier calls it from reserve() and release().
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/memory/staging.h"
#include "liballoc/paging/mover/mover.h"
#include "tiers/memory/memory_source.h"
#include "tiers/tier.h"

namespace terrace::liballoc {

class ShelfMemory final : public tiers::MemorySource {
 public:
  constexpr ShelfMemory(Staging& staging, MemoryBudget& budget) : staging_(staging), budget_(budget) {}
  ShelfMemory(const ShelfMemory&) = delete;
  ShelfMemory& operator=(const ShelfMemory&) = delete;
  ~ShelfMemory() = default;

  // Before anything is stored. The frames are ready; mover and tier outlive it.
  void lend_to(tiers::Tier& tier, Mover& mover);
  // Takes it out of what the kernel locked.
  void unlock() const;

  // ENOTSUP: the mover moves mappings.
  int adopt(std::byte* arena, std::uint64_t bytes) noexcept override;
  // ENOMEM: no frame is free (Frames::free_one()).
  int fill(std::byte* slab) noexcept override;
  // What a forked child shares goes back to the kernel.
  void take(std::byte* slab) noexcept override;

 private:
  bool to_frame(std::byte* slab) noexcept;

  Staging& staging_;
  MemoryBudget& budget_;
  Mover* mover_ = nullptr;
  std::byte* arena_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace terrace::liballoc
