// What a training step needs at its worst moment, and what for.
//
// Sweeps the operations once and keeps the bytes that live, class by class: weights, gradients, optimizer
// state, activations, inputs, workspaces. Allocators round every block up; what that adds is a class of its
// own. Addresses play no part: this is what must live, the lower bound of every placement; what a placement
// or a caching allocator reserves on top is for the policies of reuse/ to say.
#pragma once

#include <array>
#include <cstdint>

#include "liballoc/wire/trace.h"

namespace terrace::planner {

// Blocks are multiples of this many bytes: 512 in PyTorch's CUDA allocator (kMinBlockSize), 64 on the CPU
// (gAlignment), 256 in TensorFlow's BFC.
struct BlockRounding {
  std::uint64_t multiple = 512;
};

struct MemoryByClass {
  std::array<std::uint64_t, 7>
      kind_bytes{};  // by wire::TensorKind; `workspace` holds tensors and operations'
  std::uint64_t rounding_bytes = 0;
  [[nodiscard]] std::uint64_t of(wire::TensorKind kind) const {
    return kind_bytes.at(static_cast<std::size_t>(kind));
  }
  [[nodiscard]] std::uint64_t total_bytes() const;
};

struct MemoryEstimate {
  MemoryByClass at_peak;  // the composition when the total is largest, first such operation
  std::uint32_t peak_op = 0;
  MemoryByClass largest;  // each class at its own worst moment; these do not add up to a peak
  std::uint64_t persistent_bytes = 0;
};

MemoryEstimate estimate_memory(const wire::Trace& trace, BlockRounding rounding = {});

}  // namespace terrace::planner
