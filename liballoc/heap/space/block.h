// The heap's units, and the record of a block or of a free extent.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::liballoc {

inline constexpr std::size_t granule_bytes = std::size_t{16} * 1024;
inline constexpr std::size_t run_bytes = std::size_t{2} * 1024 * 1024;
inline constexpr std::uint32_t granules_per_run = run_bytes / granule_bytes;

enum class BlockState : std::uint8_t { unused, free, live };

struct Block {
  std::uint32_t first = 0;     // granule
  std::uint32_t granules = 0;  // length
  std::uint32_t previous = 0;  // free list links, by block id; 0 is none
  std::uint32_t next = 0;
  std::uint64_t call_site = 0;
  BlockState state = BlockState::unused;
  std::uint8_t hints = 0;
  bool virgin = false;  // nothing of it was handed out since the kernel gave it: its zeroes
};

}  // namespace terrace::liballoc
