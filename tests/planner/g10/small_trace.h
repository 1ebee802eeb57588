// Traces small enough to follow by hand, and machines for them.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/g10/g10.h"

namespace terrace::planner::test {

inline constexpr std::uint64_t page = 4096;

wire::TraceTensor tensor_of_pages(std::uint64_t pages, bool persistent = false);
wire::TraceOp op_of_ticks(double ticks, std::vector<std::uint32_t> inputs,
                          std::vector<std::uint32_t> outputs);

// The default machine with other memories, in pages. A tick stays at 15,599 cycles, 50 pages, 10 over the
// SSD.
G10Machine machine_of_pages(std::uint64_t gpu, std::uint64_t host);

// Layers forward and back over weights and activations; the same for the same seed.
wire::Trace random_trace(std::uint32_t seed);

}  // namespace terrace::planner::test
