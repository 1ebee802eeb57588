// compression/cuda/simt.cuh's functions without a GPU: every thread of a CTA is a fiber, all fibers of some
// CTAs take turns on one thread of the machine, in an order drawn from a seed. A fiber runs until a barrier,
// an operation of its warp, or pause(); so a missing barrier shows under some seed, and the same seed shows
// it again. CTAs that wait for each other (look-back) do so here too, as several are resident at once.
//
// What a GPU forgives is an error here: a barrier that not all threads reach ends the test, shared memory
// holds garbage at first and has its exact size (AddressSanitizer sees what goes beyond), and an asynchronous
// copy arrives no sooner than its thread waits for it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define TERRACE_DEVICE inline
#define TERRACE_UNROLL
#define TERRACE_UNROLL_BY(times)

namespace terrace::compression::cuda::simt {

struct Launch {
  std::uint32_t ctas = 1;
  std::uint32_t threads = 128;
  std::size_t shared_bytes = 0;
  std::uint32_t resident_ctas = 1;  // so many run at once
  std::uint64_t seed = 0;           // 0: threads run in their order
};
// Runs `kernel` in every thread of a launch. A deadlock ends the program with a message.
void run(const Launch& launch, const std::function<void()>& kernel);

// Of the thread that runs now.
struct Position {
  std::uint32_t thread, threads, cta, ctas;
  unsigned char* shared;
};
const Position& position();

inline std::uint32_t thread_index() { return position().thread; }
inline std::uint32_t thread_count() { return position().threads; }
inline std::uint32_t cta_index() { return position().cta; }
inline std::uint32_t cta_count() { return position().ctas; }
inline unsigned char* shared_memory() { return position().shared; }

void sync_cta();
bool all_in_cta(bool holds);
void pause();
// Gives `value` to the warp and returns the lanes' values, which stay until the warp's operation after the
// next one.
const std::uint64_t* exchange(std::uint64_t value);

inline void sync_warp() { exchange(0); }
std::uint32_t ballot(bool holds);

template <typename T>
T shuffle(T value, std::uint32_t from) {
  return static_cast<T>(exchange(value)[from % 32]);
}
template <typename T>
T shuffle_xor(T value, std::uint32_t lanes) {
  return static_cast<T>(exchange(value)[(thread_index() ^ lanes) % 32]);
}
template <typename T>
T shuffle_up(T value, std::uint32_t lanes) {
  const std::uint32_t lane = thread_index() % 32;
  return static_cast<T>(exchange(value)[lane < lanes ? lane : lane - lanes]);
}

inline std::uint32_t bits_in(std::uint32_t word) { return static_cast<std::uint32_t>(std::popcount(word)); }
inline std::uint32_t bits_in(std::uint64_t word) { return static_cast<std::uint32_t>(std::popcount(word)); }
inline std::uint32_t lowest_bit(std::uint32_t word) {
  return static_cast<std::uint32_t>(std::countr_zero(word));
}
inline std::uint32_t lowest_bit(std::uint64_t word) {
  return static_cast<std::uint32_t>(std::countr_zero(word));
}
inline std::uint32_t bit_width(std::uint32_t word) {
  return static_cast<std::uint32_t>(std::bit_width(word));
}
inline std::uint64_t joined(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }
inline std::uint32_t nonzero(std::uint32_t word) { return word != 0 ? 1 : 0; }
// 1 in each half that is not zero.
inline std::uint32_t nonzero_halves(std::uint32_t word) {
  return ((word & 0xffff) != 0 ? 1U : 0U) | ((word >> 16) != 0 ? 1U << 16 : 0U);
}
std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b);

inline std::uint32_t atomic_add(std::uint32_t* word, std::uint32_t by) {
  *word += by;
  return *word - by;
}
inline void atomic_or(std::uint32_t* word, std::uint32_t bits) { *word |= bits; }
template <typename T>
T load_exchanged(const T* word) {
  return *word;
}
inline std::uint64_t load_written(const std::uint64_t* word) { return *word; }
template <typename T>
void store_exchanged(T* word, T value) {
  *word = value;
}
inline void fence() {}
// Two readings differ.
inline std::uint64_t device_ns() {
  static std::uint64_t now = 1'000'000;
  return now += 1000;
}

void copy_async16(void* shared, const void* global);
// Reads nothing, but the address has to be one that could be read.
inline void prefetch(const void* global) { static_cast<void>(*static_cast<const volatile char*>(global)); }
void wait_copies();

}  // namespace terrace::compression::cuda::simt
