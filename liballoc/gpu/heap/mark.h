// A place in a stream's work: what a freed piece of memory must be behind before someone else uses it.
#pragma once

#include <cstdint>

namespace terrace::liballoc::gpu {

// Streams are numbered as the heap meets them, from 1.
using Owner = std::uint32_t;
inline constexpr Owner nobody = 0;

// The work of stream `owner` up to its `sequence`-th event, counted by StreamClocks. Of nobody: nothing to
// wait for. Zeroed memory is such a mark.
struct Mark {
  std::uint64_t sequence = 0;
  Owner owner = nobody;
  friend bool operator==(const Mark&, const Mark&) = default;
};

}  // namespace terrace::liballoc::gpu
