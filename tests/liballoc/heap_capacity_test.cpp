// The heap as an emulated GPU's memory: full is ENOMEM, said once, and what is freed makes room again. A
// program of its own, because a process has one heap and this one is limited from the beginning.
#include <catch2/catch.hpp>
#include <string>

#include "liballoc/heap/heap.h"
#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

using test::mib;

Heap& limited_heap() {
  Options options;
  options.device_bytes = 16 * mib;
  if (!heap().ready() && heap().initialise(options) != 0) std::abort();
  return heap();
}

void* allocate(std::size_t bytes) { return limited_heap().allocate(bytes, 64, nullptr, false); }
void release(void* block) { limited_heap().release(block, nullptr); }

}  // namespace

TEST_CASE("FullDeviceRefusesAndSaysSoOnceWithTheRemedy") {
  void* first = allocate(12 * mib);
  REQUIRE(first != nullptr);
  test::CapturedStderr captured;
  void* refused = allocate(6 * mib);
  void* refused_again = allocate(6 * mib);
  const std::string text = captured.text();
  CHECK(refused == nullptr);
  CHECK(refused_again == nullptr);
  CHECK(text.find("16.0 MiB is full") != std::string::npos);
  CHECK(text.find("--offload-min") != std::string::npos);
  CHECK(text.find('\n') == text.size() - 1);
  release(first);
}

TEST_CASE("FreesMakeRoomAgain") {
  void* whole = allocate(16 * mib);
  REQUIRE(whole != nullptr);
  CHECK(allocate(1) == nullptr);
  release(whole);
  void* half = allocate(8 * mib);
  void* other_half = allocate(8 * mib);
  CHECK(half != nullptr);
  CHECK(other_half != nullptr);
  release(half);
  release(other_half);
}

TEST_CASE("ResizeBeyondTheDeviceLeavesTheBlock") {
  void* block = allocate(8 * mib);
  REQUIRE(block != nullptr);
  test::fill(static_cast<std::byte*>(block), 1, 8 * mib);
  CHECK(limited_heap().resize(block, 20 * mib, nullptr) == nullptr);
  CHECK(test::holds(static_cast<std::byte*>(block), 1, 8 * mib));
  CHECK(limited_heap().usable_bytes(block) == 8 * mib);
  release(block);
}

TEST_CASE("AbsurdSizesAreRefusedLikeLargeOnes") { CHECK(allocate(SIZE_MAX / 2) == nullptr); }

}  // namespace terrace::liballoc
