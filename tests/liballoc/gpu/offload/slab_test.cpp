#include "liballoc/gpu/offload/slab.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "tests/liballoc/support.h"

using terrace::liballoc::offload::Slab;
using terrace::tiers::Extent;

namespace {

constexpr std::uint64_t mib = 1 << 20;

std::unique_ptr<terrace::tiers::gpu::Device> emulated() {
  terrace::tiers::gpu::DeviceSpec spec;
  std::string reason;
  std::unique_ptr<terrace::tiers::gpu::Device> device;
  REQUIRE(terrace::tiers::gpu::parse_device("emulated:64M", &spec, &reason) == 0);
  REQUIRE(terrace::tiers::gpu::open_device(spec, &device, &reason) == 0);
  return device;
}

}  // namespace

TEST_CASE("TheCapacityIsReachedAndNotPassed") {
  Slab slab;
  std::string reason;
  REQUIRE(slab.open(16 * mib, nullptr, &reason) == 0);
  Extent extents[16];
  for (Extent& extent : extents) {
    REQUIRE(slab.reserve(mib, &extent) == 0);
    std::memset(slab.at(extent), 1, mib);
  }
  Extent more{1, 2};
  CHECK(slab.reserve(1, &more) == ENOSPC);
  CHECK(slab.reserve(17 * mib, &more) == ENOSPC);
  CHECK(slab.reserve(0, &more) == EINVAL);
  CHECK(more == Extent{1, 2});
  CHECK(slab.committed_bytes() == 16 * mib);
  CHECK(slab.used_bytes() == 16 * mib);
}

TEST_CASE("WhatIsShrunkIsFreeForOthers") {
  Slab slab;
  std::string reason;
  REQUIRE(slab.open(16 * mib, nullptr, &reason) == 0);
  Extent whole;
  REQUIRE(slab.reserve(16 * mib, &whole) == 0);
  slab.shrink(&whole, 5000);
  CHECK(whole.bytes == 8192);
  Extent rest;
  CHECK(slab.reserve(16 * mib - 8192, &rest) == 0);
}

TEST_CASE("AnExtentOverSeveralChunksIsOneAddressRange") {
  Slab slab;
  std::string reason;
  REQUIRE(slab.open(16 * mib, nullptr, &reason) == 0);
  Extent one, two, both;
  REQUIRE(slab.reserve(mib, &one) == 0);
  REQUIRE(slab.reserve(mib, &two) == 0);
  CHECK(slab.chunk_end(one.offset) == mib);
  slab.release(one);
  slab.release(two);
  REQUIRE(slab.reserve(2 * mib, &both) == 0);
  CHECK(both == Extent{0, 2 * mib});
  std::memset(slab.at(both), 1, both.bytes);
}

TEST_CASE("PinnedMemoryIsPinnedOnce") {
  const auto device = emulated();
  Slab slab;
  std::string reason;
  const int error = slab.open(16 * mib, device.get(), &reason);
  if (error == EPERM || error == EAGAIN || error == ENOMEM) {
    WARN("SKIP: " << reason);
    return;
  }
  REQUIRE(error == 0);
  Extent extent;
  REQUIRE(slab.reserve(10 * mib, &extent) == 0);
  std::memset(slab.at(extent), 1, extent.bytes);
  slab.release(extent);
  for (unsigned i = 0; i <= Slab::steps_until_given_back; ++i) slab.trim();
  CHECK(slab.committed_bytes() == 0);
  CHECK(slab.committed_peak_bytes() >= 10 * mib);
}

TEST_CASE("ALimitOnLockedMemoryIsFoundOnOpening") {
  const int result = terrace::liballoc::test::in_child([] {
    const rlimit limit{8 * mib, 8 * mib};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 1;
    if (geteuid() == 0 && setuid(65534) != 0) return 2;  // root may lock whatever the limit
    const auto device = emulated();
    Slab slab;
    std::string reason;
    const int error = slab.open(16 * mib, device.get(), &reason);
    if (error == 0) return 3;
    if (reason.find("ulimit -l") == std::string::npos) return 4;
    return slab.committed_bytes() == 0 ? 0 : 5;
  });
  CHECK(result == 0);
}
