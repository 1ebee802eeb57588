// simt.cuh's functions for nvcc.
#pragma once

#include <cstdint>

#define TERRACE_DEVICE __device__ __forceinline__
#define TERRACE_UNROLL _Pragma("unroll")
#define TERRACE_PRAGMA(text) _Pragma(#text)
#define TERRACE_UNROLL_BY(times) TERRACE_PRAGMA(unroll times)

namespace terrace::compression::cuda::simt {

inline constexpr unsigned all_lanes = 0xffffffff;

TERRACE_DEVICE std::uint32_t thread_index() { return threadIdx.x; }
TERRACE_DEVICE std::uint32_t thread_count() { return blockDim.x; }
TERRACE_DEVICE std::uint32_t cta_index() { return blockIdx.x; }
TERRACE_DEVICE std::uint32_t cta_count() { return gridDim.x; }

TERRACE_DEVICE unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char memory[];
  return memory;
}

TERRACE_DEVICE void sync_cta() { __syncthreads(); }
TERRACE_DEVICE bool all_in_cta(bool holds) { return __syncthreads_and(holds ? 1 : 0) != 0; }
TERRACE_DEVICE void sync_warp() { __syncwarp(); }
TERRACE_DEVICE std::uint32_t ballot(bool holds) { return __ballot_sync(all_lanes, holds ? 1 : 0); }

template <typename T>
TERRACE_DEVICE T shuffle(T value, std::uint32_t from) {
  return __shfl_sync(all_lanes, value, static_cast<int>(from));
}
template <typename T>
TERRACE_DEVICE T shuffle_xor(T value, std::uint32_t lanes) {
  return __shfl_xor_sync(all_lanes, value, static_cast<int>(lanes));
}
template <typename T>
TERRACE_DEVICE T shuffle_up(T value, std::uint32_t lanes) {
  return __shfl_up_sync(all_lanes, value, lanes);
}

TERRACE_DEVICE std::uint32_t bits_in(std::uint32_t word) { return static_cast<std::uint32_t>(__popc(word)); }
TERRACE_DEVICE std::uint32_t bits_in(std::uint64_t word) {
  return static_cast<std::uint32_t>(__popcll(word));
}
// The lowest set bit's number; the word has one.
TERRACE_DEVICE std::uint32_t lowest_bit(std::uint32_t word) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(word)) - 1);
}
TERRACE_DEVICE std::uint32_t lowest_bit(std::uint64_t word) {
  return static_cast<std::uint32_t>(__ffsll(static_cast<long long>(word)) - 1);
}
// Bits that a word takes: 0 for 0.
TERRACE_DEVICE std::uint32_t bit_width(std::uint32_t word) {
  return 32U - static_cast<std::uint32_t>(__clz(static_cast<int>(word)));
}
// Two words as one: said so that the compiler does not compute in 64 bits what becomes one half.
TERRACE_DEVICE std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
  std::uint64_t word;
  asm("mov.b64 %0, {%1, %2};" : "=l"(word) : "r"(low), "r"(high));
  return word;
}
// 1 if the word is not zero. One instruction; of the C++ the compiler makes a comparison and a selection.
TERRACE_DEVICE std::uint32_t nonzero(std::uint32_t word) {
  std::uint32_t least;
  asm("min.u32 %0, %1, 1;" : "=r"(least) : "r"(word));
  return least;
}
// 1 in each half that is not zero: one instruction from sm_90 on.
TERRACE_DEVICE std::uint32_t nonzero_halves(std::uint32_t word) { return __vminu2(word, 0x00010001); }
TERRACE_DEVICE std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) { return __umul64hi(a, b); }

TERRACE_DEVICE std::uint32_t atomic_add(std::uint32_t* word, std::uint32_t by) { return atomicAdd(word, by); }
TERRACE_DEVICE void atomic_or(std::uint32_t* word, std::uint32_t bits) { atomicOr(word, bits); }

// Past the first-level cache, which does not see what other multiprocessors write.
template <typename T>
TERRACE_DEVICE T load_exchanged(const T* word) {
  return *static_cast<const volatile T*>(word);
}
// The same for what was written before a fence that this thread knows of: such loads may overlap. An
// instruction of its own, as nothing else promises that the compiler takes no value from before the fence.
TERRACE_DEVICE std::uint64_t load_written(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(word)) : "memory");
  return value;
}
template <typename T>
TERRACE_DEVICE void store_exchanged(T* word, T value) {
  *static_cast<volatile T*>(word) = value;
}
TERRACE_DEVICE void fence() { __threadfence(); }
// The device's clock: at steps of a microsecond at most (PTX, "%globaltimer").
TERRACE_DEVICE std::uint64_t device_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
TERRACE_DEVICE void pause() { __nanosleep(20); }

// cp.async (sm_80): the data goes to shared memory without passing registers, so that all of a block is in
// flight.
TERRACE_DEVICE void copy_async16(void* shared, const void* global) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
}
// Brings the line of an address into the second-level cache.
TERRACE_DEVICE void prefetch(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global) : "memory");
}
TERRACE_DEVICE void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace terrace::compression::cuda::simt
