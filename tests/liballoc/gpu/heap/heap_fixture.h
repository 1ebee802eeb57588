// A heap on a device that does what the test says.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "liballoc/gpu/heap/heap.h"
#include "tests/liballoc/gpu/heap/told_device.h"
#include "tests/units.h"

namespace terrace::test {

using tests::kib;
using tests::mib;

struct HeapFixture {
  explicit HeapFixture(std::uint64_t frames = 16, std::uint64_t budget = 0) : device(frames), heap(device) {
    REQUIRE(heap.open(budget) == 0);
    REQUIRE(device.create_stream(&one) == 0);
    REQUIRE(device.create_stream(&two) == 0);
  }

  std::byte* allocate(std::uint64_t bytes, gpu::Stream stream) {
    void* block = nullptr;
    REQUIRE(heap.allocate(bytes, stream, &block) == 0);
    return static_cast<std::byte*>(block);
  }
  int allocation_error(std::uint64_t bytes, gpu::Stream stream) {
    void* block = nullptr;
    const int error = heap.allocate(bytes, stream, &block);
    if (error == 0) heap.free(block, stream);
    return error;
  }
  void free(void* block, gpu::Stream stream) { REQUIRE(heap.free(block, stream) == 0); }
  void check() { REQUIRE_THAT(heap.check_invariants(), Catch::Equals("")); }

  // Bytes that depend on where they lie, so that a piece from elsewhere is noticed.
  static void fill(std::byte* block, std::uint64_t bytes, unsigned seed) {
    for (std::uint64_t i = 0; i < bytes; i += 64) std::memcpy(block + i, &seed, sizeof(seed));
    for (std::uint64_t i = 0; i + 12 < bytes; i += 4096) std::memcpy(block + i + 4, &i, sizeof(i));
  }
  static bool filled(const std::byte* block, std::uint64_t bytes, unsigned seed) {
    for (std::uint64_t i = 0; i < bytes; i += 64) {
      if (std::memcmp(block + i, &seed, sizeof(seed)) != 0) return false;
    }
    for (std::uint64_t i = 0; i + 12 < bytes; i += 4096) {
      if (std::memcmp(block + i + 4, &i, sizeof(i)) != 0) return false;
    }
    return true;
  }

  ToldDevice device;
  liballoc::gpu::Heap heap;
  gpu::Stream one = nullptr;
  gpu::Stream two = nullptr;
};

}  // namespace terrace::test
