// The hooks between doubles of the libraries around them (trace.h), to which the program is linked.
// LD_PRELOAD, which puts the hooks in front of the doubles, and TERRACE_GPU=cuda come from ctest.
#include "liballoc/gpu/preload/hooks.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/gpu/preload/trace.h"

extern "C" {
int cudaMallocManaged(void** out, std::size_t bytes, unsigned flags);
int cudaSetDevice(int device);
}

namespace {

using Calls = std::vector<std::string>;

void* const stream = reinterpret_cast<void*>(std::uintptr_t{0x40});   // NOLINT
void* const legacy = reinterpret_cast<void*>(std::uintptr_t{1});      // NOLINT
void* const per_thread = reinterpret_cast<void*>(std::uintptr_t{2});  // NOLINT

// Since the last time.
Calls calls() { return std::exchange(doubles().calls, {}); }

struct Fresh {
  Fresh() {
    doubles() = Doubles{};
    cudaGetLastError();
  }
};

void* allocated(std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, bytes) == 0);
  REQUIRE(block != nullptr);
  calls();
  return block;
}

}  // namespace

TEST_CASE("AllocationsGoToTheHeapOfTheCurrentDevice") {
  const Fresh fresh;
  doubles().device = 2;
  void* block = nullptr;
  CHECK(cudaMalloc(&block, 4096) == 0);
  CHECK(calls().front() == "heap alloc 4096 device 2 stream 0");
  CHECK(cudaFree(block) == 0);
}

TEST_CASE("FreeWaitsForTheDeviceBeforeTheBlockIsGivenBack") {
  const Fresh fresh;
  void* block = allocated(4096);
  CHECK(cudaFree(block) == 0);
  CHECK(calls() == Calls{"runtime cudaDeviceSynchronize", "heap free 4096 device 0 stream 0"});
}

TEST_CASE("FreeFromAnotherDeviceWaitsForTheBlocksOwn") {
  const Fresh fresh;
  doubles().device = 1;
  void* block = allocated(64);
  doubles().device = 0;
  CHECK(cudaFree(block) == 0);
  CHECK(calls() == Calls{"runtime cudaSetDevice 1", "runtime cudaDeviceSynchronize",
                         "runtime cudaSetDevice 0", "heap free 64 device 1 stream 0"});
}

TEST_CASE("WhatTheHeapDidNotGiveGoesBackToCuda") {
  const Fresh fresh;
  void* managed = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 8, 1) == 0);
  CHECK(cudaFree(managed) == 0);
  CHECK(cudaFreeAsync(managed, stream) == 0);
  CHECK(cudaFree(nullptr) == 0);
  CHECK(calls() == Calls{"runtime cudaMallocManaged 8", "runtime cudaFree", "runtime cudaFreeAsync 64",
                         "runtime cudaFree of nothing"});
}

TEST_CASE("ABlockThatWasFreedIsNoBlockOfOurs") {
  const Fresh fresh;
  void* block = allocated(16);
  CHECK(cudaFree(block) == 0);
  calls();
  cudaFree(block);
  CHECK(calls() == Calls{"runtime cudaFree"});
}

TEST_CASE("StreamsAreHandedOnAndAThreadsOwnIsNotTheDefaultStream") {
  const Fresh fresh;
  const auto [given, wanted, own] = GENERATE(table<void*, const char*, const char*>(
      {{stream, "64", "64"}, {nullptr, "0", "2"}, {legacy, "0", "0"}, {per_thread, "2", "2"}}));
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, 32, given) == 0);
  CHECK(calls() == Calls{std::string("heap alloc 32 device 0 stream ") + wanted});
  REQUIRE(cudaFreeAsync(block, given) == 0);
  CHECK(calls() == Calls{std::string("heap free 32 device 0 stream ") + wanted});
  REQUIRE(cudaMallocAsync_ptsz(&block, 32, given) == 0);
  CHECK(calls() == Calls{std::string("heap alloc 32 device 0 stream ") + own});
  REQUIRE(cudaFreeAsync_ptsz(block, given) == 0);
  CHECK(calls() == Calls{std::string("heap free 32 device 0 stream ") + own});
}

TEST_CASE("TheHeapIsToldBeforeAStreamIsDestroyed") {
  const Fresh fresh;
  void* block = allocated(32);
  CHECK(cudaStreamDestroy(stream) == 0);
  CHECK(calls() == Calls{"heap end_stream 64", "runtime cudaStreamDestroy 64"});
  CHECK(cuStreamDestroy_v2(stream) == 0);
  CHECK(calls() == Calls{"heap end_stream 64", "driver cuStreamDestroy_v2"});
  doubles().capture_status = 1;
  CHECK(cudaStreamDestroy(stream) == 0);
  CHECK(calls() == Calls{"runtime cudaStreamDestroy 64"});
  doubles().capture_status = 0;
  cudaFree(block);
}

TEST_CASE("MallocAfterAFreeInAStreamIsUsableInEveryStream") {
  const Fresh fresh;
  REQUIRE(cudaFreeAsync(allocated(32), stream) == 0);
  calls();
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 32) == 0);
  CHECK(calls() == Calls{"heap alloc 32 device 0 stream 0", "runtime cudaStreamSynchronize 1"});
  cudaFree(block);
}

TEST_CASE("WhileAStreamIsCapturedCudaAllocatesAndBlocksOfOursStay") {
  const Fresh fresh;
  void* block = allocated(32);
  doubles().capture_status = 1;
  void* node = nullptr;
  CHECK(cudaMallocAsync(&node, 32, stream) == 0);
  CHECK(calls() == Calls{"runtime cudaMallocAsync 64 32"});
  CHECK(cudaMallocAsync_ptsz(&node, 32, nullptr) == 0);
  CHECK(calls() == Calls{"runtime cudaMallocAsync_ptsz 0 32"});
  CHECK(cudaFreeAsync(block, stream) == 900);
  CHECK(calls().empty());
  doubles().capture_status = 0;
  CHECK(cudaFreeAsync(block, stream) == 0);
}

TEST_CASE("AFullHeapIsCudasOutOfMemoryUntilItIsAskedFor") {
  const Fresh fresh;
  doubles().heap_errno = ENOMEM;
  void* untouched = &doubles();
  CHECK(cudaMalloc(&untouched, 32) == 2);
  CHECK(untouched == &doubles());
  CHECK(cudaPeekAtLastError() == 2);
  CHECK(cudaGetLastError() == 2);
  CHECK(cudaGetLastError() == 0);
}

TEST_CASE("AnErrorOfTheRuntimesIsToldBeforeOurs") {
  const Fresh fresh;
  doubles().heap_errno = ENOMEM;
  void* none = nullptr;
  CHECK(cudaMallocAsync(&none, 32, stream) == 2);
  doubles().runtime_error = 700;
  CHECK(cudaPeekAtLastError() == 700);
  CHECK(cudaGetLastError() == 700);
  CHECK(cudaGetLastError() == 0);
}

TEST_CASE("NothingAskedForIsNothingGiven") {
  const Fresh fresh;
  void* block = &doubles();
  CHECK(cudaMalloc(&block, 0) == 0);
  CHECK(block == nullptr);
  CHECK(cudaMalloc(nullptr, 8) == 1);
  unsigned long long address = 7;
  CHECK(cuMemAlloc_v2(&address, 0) == 1);
  CHECK(cuMemAlloc_v2(nullptr, 8) == 1);
  CHECK(cudaMalloc(&block, SIZE_MAX) == 2);
  CHECK(calls().empty());
}

TEST_CASE("OnlyTheDefaultPoolIsOurs") {
  const Fresh fresh;
  void* own = reinterpret_cast<void*>(std::uintptr_t{0x900});  // NOLINT
  void* block = nullptr;
  CHECK(cudaMallocFromPoolAsync(&block, 8, own, stream) == 0);
  CHECK(calls() == Calls{"heap alloc 8 device 0 stream 64"});
  CHECK(cudaFreeAsync(block, stream) == 0);
  calls();
  CHECK(cudaMallocFromPoolAsync(&block, 8, stream, stream) == 0);
  CHECK(calls() == Calls{"runtime cudaMallocFromPoolAsync 8"});
}

TEST_CASE("MemoryInfoIsTheBudgetsAndNeverMoreThanTheDeviceHas") {
  const Fresh fresh;  // the device: 600 of 1000 free
  std::size_t left = 0;
  std::size_t total = 0;
  doubles().budget_bytes = 500;
  doubles().allocated_bytes = 200;
  doubles().reserved_bytes = 250;
  CHECK(cudaMemGetInfo(&left, &total) == 0);
  CHECK(left == 300);
  CHECK(total == 500);
  doubles().budget_bytes = 0;
  CHECK(cudaMemGetInfo(&left, &total) == 0);
  CHECK(left == 650);
  CHECK(total == 1000);
}

TEST_CASE("TheHeapsOwnRequestsAreNotForTheHeap") {
  const Fresh fresh;
  doubles().heap_calls_cuda = true;
  void* block = nullptr;
  CHECK(cudaMalloc(&block, 32) == 0);
  const Calls made = calls();
  REQUIRE(made.size() >= 2);
  CHECK(made[0] == "heap alloc 32 device 0 stream 0");
  CHECK(made[1] == "runtime cudaMalloc 1");
  cudaFree(block);
}

TEST_CASE("DriverAllocationsAreTheHeapsToo") {
  const Fresh fresh;
  unsigned long long address = 0;
  CHECK(cuMemAlloc_v2(&address, 48) == 0);
  CHECK(calls().front() == "heap alloc 48 device 0 stream 0");
  CHECK(cuMemFree_v2(address) == 0);
  CHECK(calls() == Calls{"driver cuCtxSynchronize", "heap free 48 device 0 stream 0"});
  CHECK(cuMemFree_v2(0x5000) == 0);
  CHECK(calls() == Calls{"driver cuMemFree_v2"});
}

TEST_CASE("ABlockOfOneInterfaceIsFreedThroughTheOther") {
  const Fresh fresh;
  void* block = allocated(24);
  CHECK(cuMemFree_v2(reinterpret_cast<unsigned long long>(block)) == 0);
  CHECK(calls().back() == "heap free 24 device 0 stream 0");
}

TEST_CASE("LookingUpAFunctionFindsTheHook") {
  const Fresh fresh;
  void* found = nullptr;
  CHECK(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, nullptr) == 0);
  CHECK(found == reinterpret_cast<void*>(&cuMemAlloc_v2));
  CHECK(cuGetProcAddress_v2("cuMemFreeAsync", &found, 12000, 2, nullptr) == 0);
  CHECK(found == reinterpret_cast<void*>(&cuMemFreeAsync_ptsz));
  CHECK(cuGetProcAddress_v2("cuGetProcAddress", &found, 12000, 0, nullptr) == 0);
  CHECK(found == reinterpret_cast<void*>(&cuGetProcAddress_v2));
  CHECK(cuGetProcAddress_v2("cuGetProcAddress", &found, 11040, 0, nullptr) == 0);
  CHECK(found == reinterpret_cast<void*>(&cuGetProcAddress));
  CHECK(cudaGetDriverEntryPoint("cuMemAlloc", &found, 0, nullptr) == 0);
  CHECK(found == reinterpret_cast<void*>(&cuMemAlloc_v2));
}

TEST_CASE("LookingUpAnythingElseFindsTheDriver") {
  const Fresh fresh;
  void* const drivers = reinterpret_cast<void*>(std::uintptr_t{0x88});  // NOLINT
  void* found = nullptr;
  CHECK(cuGetProcAddress_v2("cuMemCreate", &found, 12000, 0, nullptr) == 0);
  CHECK(found == drivers);
  CHECK(cuGetProcAddress_v2("cuMemAlloc", &found, 3000, 0, nullptr) == 0);
  CHECK(found == drivers);
  void* untouched = nullptr;
  CHECK(cuGetProcAddress_v2("cuNothing", &untouched, 12000, 0, nullptr) == 500);
  CHECK(untouched == nullptr);
  CHECK(cudaGetDriverEntryPoint("cuGetProcAddress", &found, 0, nullptr) == 0);
  CHECK(found != reinterpret_cast<void*>(&cuGetProcAddress_v2));
}

// Each in a process of its own (CMakeLists.txt): what they find out stays.

TEST_CASE("AHeapThatCannotWorkIsSaidOnceAndCudaGoesOn", "[.][alone]") {
  doubles().heap_errno = ENODEV;
  terrace::liballoc::test::CapturedStderr captured;
  void* block = nullptr;
  const int first = cudaMalloc(&block, 32);
  const int second = cudaMalloc(&block, 33);
  const std::string text = captured.text();
  CHECK(first == 0);
  CHECK(second == 0);
  CHECK(calls() ==
        Calls{"heap alloc 32 device 0 stream 0", "runtime cudaMalloc 32", "runtime cudaMalloc 33"});
  CHECK(text.find("CUDA's own allocator") != std::string::npos);
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("EverythingPassesBy", "[.][passes_by]") {
  void* block = nullptr;
  CHECK(cudaMalloc(&block, 32) == 0);
  CHECK(cudaFree(block) == 0);
  CHECK(cudaMallocAsync(&block, 32, stream) == 0);
  void* found = nullptr;
  CHECK(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, nullptr) == 0);
  CHECK(found == reinterpret_cast<void*>(std::uintptr_t{0x88}));  // NOLINT
  CHECK(calls() == Calls{"runtime cudaMalloc 32", "runtime cudaFree", "runtime cudaMallocAsync 64 32"});
}

TEST_CASE("OnlyDevicesFromTheNamedOneOnAreOurs", "[.][second_device]") {  // TERRACE_GPU=cuda:1
  void* block = nullptr;
  CHECK(cudaMalloc(&block, 32) == 0);
  doubles().device = 1;
  CHECK(cudaMalloc(&block, 33) == 0);
  CHECK(calls() == Calls{"runtime cudaMalloc 32", "heap alloc 33 device 0 stream 0"});
  doubles().device = 0;
  CHECK(cudaFree(block) == 0);
  CHECK(calls() == Calls{"runtime cudaSetDevice 1", "runtime cudaDeviceSynchronize",
                         "runtime cudaSetDevice 0", "heap free 33 device 0 stream 0"});
}

TEST_CASE("AnEmulatedGpuNeedsNoDriver", "[.][emulated]") {  // TERRACE_GPU=emulated:64M
  constexpr int insufficient_driver = 35;
  void* block = nullptr;
  CHECK(cudaFree(nullptr) == 0);
  CHECK(cudaMalloc(&block, 32) == 0);
  CHECK(cudaFree(block) == 0);
  CHECK(calls() == Calls{"heap alloc 32 device 0 stream 0", "heap free 32 device 0 stream 0"});
  std::size_t left = 0;
  std::size_t total = 0;
  doubles().allocated_bytes = 1 << 20;
  CHECK(cudaMemGetInfo(&left, &total) == 0);
  CHECK(total == 64 << 20);
  CHECK(left == 63 << 20);
  doubles().runtime_error = insufficient_driver;
  doubles().heap_errno = ENOMEM;
  CHECK(cudaMalloc(&block, 32) == 2);
  CHECK(cudaPeekAtLastError() == 2);
  CHECK(cudaGetLastError() == 2);
  doubles().runtime_error = insufficient_driver;
  CHECK(cudaGetLastError() == 0);
  doubles().runtime_error = 700;
  CHECK(cudaGetLastError() == 700);
}
