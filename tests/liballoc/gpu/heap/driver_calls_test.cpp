// What the heap asks of the CUDA driver, counted on the fake one (tests/tiers/gpu/fake_cuda.h): cuMemCreate
// and cuMemMap for each frame, since CUDA maps an allocation from its beginning only; everything else for
// each run.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "liballoc/gpu/heap/heap.h"
#include "tests/tiers/gpu/fake_cuda.h"
#include "tests/units.h"

using namespace terrace;
using tests::mib;

namespace {

std::unique_ptr<tiers::gpu::Device> fake_gpu() {
  std::unique_ptr<tiers::gpu::Device> device;
  std::string reason;
  REQUIRE(tiers::gpu::open_device({}, &device, &reason) == 0);
  REQUIRE(device->name() == "Fake GPU");
  return device;
}

FakeCudaCalls calls() {
  static const auto ask = reinterpret_cast<decltype(&fake_cuda_calls)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda_calls"));
  return ask();
}

bool operator==(const FakeCudaCalls& a, const FakeCudaCalls& b) {
  return a.create == b.create && a.release == b.release && a.map == b.map && a.unmap == b.unmap &&
         a.set_access == b.set_access;
}

// Since `before`.
FakeCudaCalls more(const FakeCudaCalls& before) {
  const FakeCudaCalls now = calls();
  return {now.create - before.create, now.release - before.release, now.map - before.map,
          now.unmap - before.unmap, now.set_access - before.set_access};
}

void* allocated(liballoc::gpu::Heap& heap, std::uint64_t bytes) {
  void* block = nullptr;
  REQUIRE(heap.allocate(bytes, nullptr, &block) == 0);
  return block;
}

}  // namespace

TEST_CASE("AccessIsSetOnceForARunOfFrames") {
  const auto device = fake_gpu();
  FakeCudaCalls before = calls();
  {
    liballoc::gpu::Heap heap(*device);
    REQUIRE(heap.open(0) == 0);
    void* const large = allocated(heap, 40 * mib);
    CHECK((more(before) == FakeCudaCalls{.create = 20, .map = 20, .set_access = 1}));
    before = calls();
    REQUIRE(heap.free(large, nullptr) == 0);
    allocated(heap, 48 * mib);  // over the same range, which four frames are missing from
    CHECK((more(before) == FakeCudaCalls{.create = 4, .map = 4, .set_access = 1}));
    before = calls();
  }
  CHECK((more(before) == FakeCudaCalls{.release = 24, .unmap = 1}));
}

TEST_CASE("WhatEvictionTakesAndBringsBackIsARun") {
  const auto device = fake_gpu();
  liballoc::gpu::Heap heap(*device);
  REQUIRE(heap.open(0) == 0);
  void* const block = allocated(heap, 32 * mib);
  FakeCudaCalls before = calls();
  REQUIRE(heap.evict(block, false, nullptr) == 0);
  void* const other = allocated(heap, 64 * mib);  // all that there is: waits for the frames
  CHECK((more(before) == FakeCudaCalls{.create = 16, .map = 32, .unmap = 1, .set_access = 1}));
  REQUIRE(heap.free(other, nullptr) == 0);
  before = calls();
  REQUIRE(heap.restore(block, nullptr) == 0);
  CHECK((more(before) == FakeCudaCalls{.map = 16, .unmap = 1, .set_access = 1}));
}
