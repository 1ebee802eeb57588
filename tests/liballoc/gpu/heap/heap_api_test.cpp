// The C API as PyTorch's CUDAPluggableAllocator calls it, through the shared library, on the emulated device.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "liballoc/gpu/terrace_gpu.h"
#include "tests/liballoc/captured_stderr.h"

namespace {

// Before the first call, which reads them.
const bool environment_is_set =
    setenv("TERRACE_GPU", "emulated:128M", 1) == 0 && setenv("TERRACE_GPU_BUDGET", "50%", 1) == 0;

terrace_gpu_statistics statistics() {
  terrace_gpu_statistics s{};
  s.size = sizeof(s);
  REQUIRE(terrace_gpu_get_statistics(0, &s) == 0);
  return s;
}

}  // namespace

TEST_CASE("Init, alloc, record_stream, free, as PyTorch calls them") {
  REQUIRE(environment_is_set);
  terrace_gpu_init(1);
  void* block = terrace_gpu_alloc(3 << 20, 0, nullptr);
  REQUIRE(block != nullptr);
  std::memset(block, 1, 3 << 20);
  terrace_gpu_record_stream(block, nullptr);
  size_t size = 0;
  CHECK(terrace_gpu_base_alloc(block, &size) == block);
  CHECK(size == 3 << 20);
  CHECK(statistics().allocated_bytes == 3 << 20);
  terrace_gpu_free(block, 3 << 20, 0, nullptr);
  CHECK(statistics().allocated_bytes == 0);
  CHECK(statistics().frees == 1);
  CHECK(terrace_gpu_alloc(3 << 20, 0, nullptr) == block);
  terrace_gpu_free(block, 3 << 20, 0, nullptr);
  terrace_gpu_reset();
}

TEST_CASE("Nothing is allocated for size 0, a negative size, an unknown device, or beyond the budget") {
  errno = 0;
  CHECK(terrace_gpu_alloc(0, 0, nullptr) == nullptr);
  CHECK(errno == 0);
  CHECK(terrace_gpu_alloc(-1, 0, nullptr) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(terrace_gpu_alloc(1, 64, nullptr) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(statistics().budget_bytes == 64 << 20);
  CHECK(terrace_gpu_alloc(65 << 20, 0, nullptr) == nullptr);
  CHECK(errno == ENOMEM);
  terrace_gpu_free(nullptr, 0, 0, nullptr);
}

TEST_CASE("A block that is not live is reported and left alone") {
  int local = 0;
  terrace::liballoc::test::CapturedStderr captured;
  terrace_gpu_free(&local, 4, 0, nullptr);
  terrace_gpu_record_stream(&local, nullptr);
  const std::string said = captured.text();
  CHECK(said.find("terrace: free of ") == 0);
  CHECK(said.find("terrace: record_stream of ") != std::string::npos);
  CHECK(terrace_gpu_base_alloc(&local, nullptr) == nullptr);
  CHECK(terrace_gpu_evict(&local, 0, nullptr) == -EINVAL);
  CHECK(terrace_gpu_restore(&local, nullptr) == -EINVAL);
}

TEST_CASE("A block is evicted and restored with its bytes, mapped or not") {
  constexpr std::size_t bytes = 20 << 20;
  for (const int keep_mapped : {0, 1}) {
    auto* block = static_cast<unsigned char*>(terrace_gpu_alloc(bytes, 0, nullptr));
    REQUIRE(block != nullptr);
    for (std::size_t i = 0; i < bytes; ++i) block[i] = static_cast<unsigned char>(i * 7);
    REQUIRE(terrace_gpu_evict(block, keep_mapped, nullptr) == 0);
    CHECK(statistics().evicted_bytes == bytes);
    REQUIRE(terrace_gpu_restore(block, nullptr) == 0);
    // Behind it in the default stream; a second round trip waits for the first.
    REQUIRE(terrace_gpu_evict(block, 1, nullptr) == 0);
    REQUIRE(terrace_gpu_restore(block, nullptr) == 0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bytes; ++i) wrong += block[i] != static_cast<unsigned char>(i * 7) ? 1 : 0;
    CHECK(wrong == 0);
    terrace_gpu_free(block, bytes, 0, nullptr);
  }
  CHECK(statistics().evicted_bytes == 0);
}

TEST_CASE("A fraction of the memory is a budget, and nonsense is refused") {
  terrace_gpu_memory_fraction(0.25, 0);
  CHECK(statistics().budget_bytes == 32 << 20);
  {
    const terrace::liballoc::test::CapturedStderr captured;
    terrace_gpu_memory_fraction(0, 0);
    terrace_gpu_memory_fraction(1.5, 0);
  }
  CHECK(statistics().budget_bytes == 32 << 20);
  terrace_gpu_memory_fraction(0.5, 0);
}

TEST_CASE("A forked child is refused and cannot harm its parent") {
  void* block = terrace_gpu_alloc(1 << 20, 0, nullptr);
  REQUIRE(block != nullptr);
  const pid_t child = fork();
  if (child == 0) {
    terrace_gpu_free(block, 1 << 20, 0, nullptr);
    terrace_gpu_reset();
    const bool refused = terrace_gpu_alloc(1 << 20, 0, nullptr) == nullptr && errno == ENODEV;
    _exit(refused && terrace_gpu_evict(block, 0, nullptr) == -EINVAL ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  terrace_gpu_free(block, 1 << 20, 0, nullptr);
  CHECK(statistics().allocated_bytes == 0);
}
