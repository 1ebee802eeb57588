// The addresses of the heap: one reserved range, owned by compare.
//
//   [base, base + arena)      bootstrap arena (bootstrap_arena.h)
//   [blocks, base + span)     blocks, 2 MiB runs
//
// The range is reserved without access; what blocks reach becomes writable as they reach it. Any thread, once
// reserve() has returned; commit() under the heap's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/heap/bootstrap_arena.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

class ReservedRange {
 public:
  // 0 or errno; on failure nothing is owned.
  int reserve();
  void release();
  bool is_reserved() const { return span_ != 0; }

  bool owns(const void* address) const { return reinterpret_cast<std::uintptr_t>(address) - base_ < span_; }
  std::uintptr_t base() const { return base_; }
  std::size_t span() const { return span_; }
  std::byte* arena() const { return reinterpret_cast<std::byte*>(base_); }  // NOLINT: the reserved range
  std::byte* blocks() const { return blocks_; }
  std::size_t block_bytes() const { return span_ - BootstrapArena::bytes; }
  // From an address in the range to the range's end.
  std::size_t bytes_from(const void* address) const {
    return base_ + span_ - reinterpret_cast<std::uintptr_t>(address);
  }

  // Makes the first granules writable, up to `top_granule`. False: that is more than is allowed.
  bool commit(std::uint32_t top_granule);
  std::byte* committed_end() const { return blocks_ + committed_; }

 private:
  static constexpr std::size_t commit_bytes = std::size_t{1} << 30;
  static constexpr std::size_t limited_commit_bytes = std::size_t{1} << 26;

  bool find_room();

  std::uintptr_t base_ = 0;
  std::size_t span_ = 0;
  std::byte* blocks_ = nullptr;
  std::size_t committed_ = 0;  // written under the heap's lock; only grows
  std::size_t commit_step_ = commit_bytes;
};

}  // namespace terrace::liballoc
