// One drive is full, fails, or is gone: the others go on.
#include <catch2/catch.hpp>

#include "striped_drives.h"
#include "support.h"
#include "tiers/striped_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

using DriveFault = FailingAdaptor::Operation;

}  // namespace

TEST_CASE("FullDriveLeavesTheOthersGoing, to the last byte of all") {
  Drives drives({16 * mib, 64 * mib, 32 * mib});
  CHECK(drives.spread(56) == std::vector<int>{8, 32, 16});
  Extent extent{1, 2};
  CHECK(drives.tier.reserve(run_bytes, &extent) == ENOSPC);
  CHECK(extent == Extent{1, 2});
  CHECK(drives.tier.space().used_bytes == 112 * mib);
  CHECK(drives.tier.space().capacity_bytes == 112 * mib);
}

TEST_CASE("DriveWhoseDiskIsFullIsNotAskedAgain until something on it is released") {
  Drives drives({64 * mib, 64 * mib});
  const Extent old = drives.reserve();
  REQUIRE(drives.drive_of(old) == 0);
  drives.failing[0].fail_from(DriveFault::reserve, 1, ENOSPC);
  drives.trace[0].clear();
  CHECK(drives.spread(12) == std::vector<int>{0, 12});
  CHECK(drives.trace[0].count(TraceAdaptor::Operation::reserve) == 1);
  drives.failing[0].heal();
  drives.tier.release(old);
  const std::vector<int> taken = drives.spread(6);
  CHECK(taken[0] >= 3);
}

TEST_CASE("A small extent may fit where a large one did not") {
  Drives drives({64 * mib, 64 * mib});
  drives.failing[0].fail_nth(DriveFault::reserve, 1, ENOSPC);
  drives.reserve();
  const std::vector<int> taken = drives.spread(4, 64 * kib);
  CHECK(taken[0] >= 2);
}

TEST_CASE("When all refuse, no room counts more than a broken drive") {
  Drives drives({64 * mib, 64 * mib});
  drives.failing[0].fail_from(DriveFault::reserve, 1, EIO);
  drives.failing[1].fail_from(DriveFault::reserve, 1, ENOSPC);
  Extent extent{1, 2};
  CHECK(drives.tier.reserve(run_bytes, &extent) == ENOSPC);
  drives.failing[1].heal();
  drives.failing[1].fail_from(DriveFault::reserve, 1, EIO);
  CHECK(drives.tier.reserve(run_bytes, &extent) == EIO);
  CHECK(extent == Extent{1, 2});
}

TEST_CASE("DriveThatFailsAWriteRests, and is tried again after a while") {
  Drives drives({16384 * mib, 16384 * mib});
  Buffer buffer(64 * kib);
  const Extent bad = drives.reserve(64 * kib);
  REQUIRE(drives.drive_of(bad) == 0);
  drives.failing[0].fail_nth(DriveFault::write, 1, EIO);
  CHECK(write(drives.tier, bad, buffer) == EIO);
  drives.tier.release(bad);
  const int rest = static_cast<int>(StripedTier::rest_extents);
  CHECK(drives.spread(rest, 64 * kib) == std::vector<int>{0, rest});
  const std::vector<int> after = drives.spread(8, 64 * kib);
  CHECK(after[0] >= 4);
}

TEST_CASE("A resting drive is taken when the others are full") {
  Drives drives({16 * mib, 16 * mib});
  Buffer buffer(64 * kib);
  const Extent bad = drives.reserve();
  drives.failing[0].fail_nth(DriveFault::write, 1, EIO);
  REQUIRE(write(drives.tier, {bad.offset, buffer.bytes()}, buffer) == EIO);
  CHECK(drives.spread(15) == std::vector<int>{7, 8});
}

TEST_CASE("LostDriveTakesItsPartAndNoMore") {
  Drives drives({64 * mib, 64 * mib});
  Buffer buffer(64 * kib);
  buffer.fill(1);
  const Extent one = drives.reserve(64 * kib);
  const Extent other = drives.reserve(64 * kib);
  REQUIRE(drives.drive_of(one) != drives.drive_of(other));
  REQUIRE(write(drives.tier, one, buffer) == 0);
  REQUIRE(write(drives.tier, other, buffer) == 0);
  drives.failing[drives.drive_of(one)].lose_device();
  CHECK(read(drives.tier, one, buffer) == EIO);
  Buffer back(64 * kib);
  CHECK(read(drives.tier, other, back) == 0);
  CHECK(back.holds(1));
  CHECK(drives.drive_of(drives.reserve()) == drives.drive_of(other));
}

TEST_CASE("An error of the caller's makes no drive rest") {
  Drives drives({64 * mib, 64 * mib});
  const Extent extent = drives.reserve();
  drives.failing[0].fail_nth(DriveFault::submit, 1, EAGAIN);
  Buffer buffer(64 * kib);
  CHECK(drives.tier.submit({Direction::write, {extent.offset, 64 * kib}, buffer.data(), 0}) == EAGAIN);
  CHECK(drives.tier.submit({Direction::write, {extent.offset + 1, 64 * kib}, buffer.data(), 0}) == EINVAL);
  CHECK(drives.spread(8) == std::vector<int>{4, 4});
}

TEST_CASE("FullDiskOfOneDriveLeavesTheOtherGoing") {
  const int result = in_small_disk(8 * mib, [](const char* directory) {
    NvmeTier small, large;
    if (open_nvme(small, {.capacity_bytes = 64 * mib}, false, directory) != 0) return 1;
    if (open_nvme(large, {.capacity_bytes = 64 * mib}) != 0) return 2;
    const StripedTier::Drive list[] = {{&small}, {&large}};
    StripedTier tier;
    if (tier.open(list) != 0) return 3;
    Buffer buffer(run_bytes);
    for (std::uint64_t i = 0; i < 32; ++i) {
      Extent extent;
      if (tier.reserve(run_bytes, &extent) != 0) return 4;
      buffer.fill(i);
      if (write(tier, extent, buffer) != 0) return 5;
    }
    return small.space().used_bytes == 8 * mib && large.space().used_bytes == 56 * mib ? 0 : 6;
  });
  if (result == cannot_mount) return void(puts("SKIP: no permission to mount a tmpfs"));
  CHECK(result == 0);
}
