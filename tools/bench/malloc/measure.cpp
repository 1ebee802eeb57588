#include "tools/bench/malloc/measure.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr double shortest_s = 0.05;

// The compiler must believe that the memory is used.
void* used(void* block) {
  asm volatile("" : "+r"(block) : : "memory");
  return block;
}

void touch(void* block, std::size_t bytes) {
  auto* at = static_cast<volatile unsigned char*>(block);
  for (std::size_t offset = 0; offset < bytes; offset += page_bytes) at[offset] = 1;
}

// Nanoseconds of one call, over a time long enough to be read off the clock.
template <typename Operation>
double time_ns(Operation operation) {
  operation();
  // What is measured is a block that was used before, by the allocator's own rules: some look at its first
  // uses.
  constexpr int uses_before = 3;
  for (int i = 0; i < uses_before; ++i) operation();
  for (long repeats = 1;; repeats *= 4) {
    const double start = now_s();
    for (long i = 0; i < repeats; ++i) operation();
    const double spent = now_s() - start;
    if (spent >= shortest_s) return spent / static_cast<double>(repeats) * 1e9;
  }
}

// NOLINTBEGIN(clang-analyzer-unix.Malloc): used() hides the blocks from the analyzer as from the compiler.
double pair_ns(std::size_t bytes) {
  return time_ns([bytes] { std::free(used(std::malloc(bytes))); });
}

// Many blocks at once, freed in another order than they were allocated.
double batch_ns(std::size_t bytes) {
  constexpr int blocks = 256;
  void* held[blocks];
  return time_ns([&] {
           for (void*& block : held) block = used(std::malloc(bytes));
           for (int i = 0; i < blocks; ++i) std::free(held[(i * 97) % blocks]);
         }) /
         blocks;
}

double touched_ns(std::size_t bytes) {
  return time_ns([bytes] {
    void* block = used(std::malloc(bytes));
    touch(block, bytes);
    std::free(block);
  });
}

double calloc_ns(std::size_t bytes) {
  return time_ns([bytes] {
    void* block = used(std::calloc(1, bytes));
    touch(block, bytes);
    std::free(block);
  });
}

// A vector that grows: twice the size each time, all of it written.
double growth_ns() {
  return time_ns([] {
    std::size_t bytes = std::size_t{64} * 1024;
    void* block = used(std::malloc(bytes));
    std::memset(block, 1, bytes);
    while (bytes < std::size_t{32} * 1024 * 1024) {
      block = used(std::realloc(block, 2 * bytes));
      std::memset(static_cast<char*>(block) + bytes, 1, bytes);
      bytes *= 2;
    }
    std::free(block);
  });
}

// NOLINTEND(clang-analyzer-unix.Malloc)

}  // namespace

nlohmann::ordered_json measure_malloc() {
  nlohmann::ordered_json result;
  constexpr std::size_t kib = 1024;
  for (const std::size_t bytes :
       {std::size_t{16}, std::size_t{64}, std::size_t{256}, kib, 4 * kib, 16 * kib, 64 * kib}) {
    result["pair " + std::to_string(bytes) + " B"] = pair_ns(bytes);
  }
  for (const std::size_t bytes : {std::size_t{64}, kib, 16 * kib}) {
    result["batch " + std::to_string(bytes) + " B"] = batch_ns(bytes);
  }
  for (const std::size_t size : {128 * kib, 256 * kib, kib * kib}) {
    result["pair " + std::to_string(size / kib) + " KiB"] = pair_ns(size);
    result["pair and touch " + std::to_string(size / kib) + " KiB"] = touched_ns(size);
  }
  result["recycled 16 MiB"] = pair_ns(16 * kib * kib);
  result["recycled 16 MiB and touch"] = touched_ns(16 * kib * kib);
  result["recycled 64 MiB and touch"] = touched_ns(64 * kib * kib);
  result["calloc 16 MiB and touch"] = calloc_ns(16 * kib * kib);
  result["realloc growth to 32 MiB"] = growth_ns();
  return result;
}

}  // namespace terrace::bench
