// The one place where a kernel meets the machine that runs it. Kernels are written against these few
// functions only: nvcc gets those of simt_cuda.cuh; a test that defines TERRACE_SIMT_EMULATED gets those of
// the emulator in tests/gpu/simt, and runs the very same source, thread by thread, where no GPU is.
//
//   thread_index(), thread_count()   of this CTA; threads are a multiple of 32
//   cta_index(), cta_count()         of this launch
//   sync_cta(), all_in_cta(p)        barriers of the CTA; the second tells whether p holds for all threads
//   ballot(p), shuffle_xor(), ...    among the 32 threads of a warp, all of which call
//   load_exchanged(), ...            words that CTAs exchange while they run
//   prefetch()                       global memory that will be read soon
//   copy_async16(), wait_copies()    16 bytes from global to shared memory without a register in between
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(TERRACE_SIMT_EMULATED)
#include "simt_emulator.h"
#else
#include "compression/cuda/simt_cuda.cuh"
#endif

namespace terrace::compression::cuda {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr u32 warp_lanes = 32;

TERRACE_DEVICE u32 lane_index() { return simt::thread_index() % warp_lanes; }
TERRACE_DEVICE u32 warp_index() { return simt::thread_index() / warp_lanes; }
TERRACE_DEVICE u32 warp_count() { return simt::thread_count() / warp_lanes; }
TERRACE_DEVICE u32 lanes_below() { return (1U << lane_index()) - 1; }

TERRACE_DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
constexpr TERRACE_DEVICE u32 ceil_div(u32 a, u32 b) { return (a + b - 1) / b; }
constexpr TERRACE_DEVICE u32 rounded_up(u32 a, u32 unit) { return ceil_div(a, unit) * unit; }

// Sum of the values of the lanes below this one's.
TERRACE_DEVICE u32 exclusive_sum(u32 value) {
  u32 sum = value;
  for (u32 step = 1; step < warp_lanes; step *= 2) {
    const u32 below = simt::shuffle_up(sum, step);
    if (lane_index() >= step) sum += below;
  }
  return sum - value;
}

TERRACE_DEVICE u32 warp_sum(u32 value) {
  for (u32 step = warp_lanes / 2; step > 0; step /= 2) value += simt::shuffle_xor(value, step);
  return value;
}

// A vector of 16 bytes: what one thread moves at once.
struct alignas(16) Vector {
  u64 low, high;
};

TERRACE_DEVICE bool is_aligned16(const void* pointer) {
  return (reinterpret_cast<std::uintptr_t>(pointer) & 15) == 0;
}

}  // namespace terrace::compression::cuda
