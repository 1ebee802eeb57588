#include "liballoc/gpu/offload/memory/slab.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "tests/liballoc/support.h"
#include "tests/units.h"

using terrace::liballoc::offload::Slab;
using terrace::tiers::Extent;

namespace {

using terrace::tests::mib;

std::unique_ptr<terrace::tiers::gpu::Device> emulated() {
  terrace::tiers::gpu::DeviceSpec spec;
  std::string reason;
  std::unique_ptr<terrace::tiers::gpu::Device> device;
  REQUIRE(terrace::tiers::gpu::parse_device("emulated:64M", &spec, &reason) == 0);
  REQUIRE(terrace::tiers::gpu::open_device(spec, &device, &reason) == 0);
  return device;
}

// As the engine does, in one thread.
int take(Slab& slab, std::uint64_t bytes, Extent* out) {
  const int error = slab.reserve(bytes, out);
  if (error != ENOSPC) return error;
  const int grown = slab.grow(bytes);
  return grown != 0 ? grown : slab.reserve(bytes, out);
}

struct SlabOf16MiB : Slab {
  SlabOf16MiB() {
    std::string reason;
    REQUIRE(open(16 * mib, nullptr, &reason) == 0);
  }
};

void give_back_all(Slab& slab) {
  for (unsigned i = 0; i <= Slab::steps_until_given_back; ++i) slab.trim();
  slab.give_back_surplus();
}

}  // namespace

TEST_CASE("TheCapacityIsReachedAndNotPassed") {
  SlabOf16MiB slab;
  Extent extents[16];
  for (Extent& extent : extents) {
    REQUIRE(take(slab, mib, &extent) == 0);
    std::memset(slab.at(extent), 1, mib);
  }
  Extent more{1, 2};
  CHECK(take(slab, 1, &more) == ENOSPC);
  CHECK(take(slab, 17 * mib, &more) == ENOSPC);
  CHECK(take(slab, 0, &more) == EINVAL);
  CHECK(more == Extent{1, 2});
  CHECK(slab.committed_bytes() == 16 * mib);
  CHECK(slab.used_bytes() == 16 * mib);
}

TEST_CASE("WhatIsShrunkIsFreeForOthers") {
  SlabOf16MiB slab;
  Extent whole;
  REQUIRE(take(slab, 16 * mib, &whole) == 0);
  slab.shrink(&whole, 5000);
  CHECK(whole.bytes == 8192);
  Extent rest;
  CHECK(take(slab, 16 * mib - 8192, &rest) == 0);
}

TEST_CASE("AnExtentOverSeveralChunksIsOneAddressRange") {
  SlabOf16MiB slab;
  Extent one, two, both;
  REQUIRE(take(slab, mib, &one) == 0);
  REQUIRE(take(slab, mib, &two) == 0);
  CHECK(slab.chunk_end(one.offset) == mib);
  slab.release(one);
  slab.release(two);
  REQUIRE(take(slab, 2 * mib, &both) == 0);
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
  REQUIRE(take(slab, 10 * mib, &extent) == 0);
  std::memset(slab.at(extent), 1, extent.bytes);
  slab.release(extent);
  give_back_all(slab);
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

TEST_CASE("WhatGrowsOrGoesIsNobodysMeanwhile") {
  SlabOf16MiB slab;
  const Slab::Chunk chunk = slab.growth_for(4 * mib, true);
  CHECK(chunk.bytes == 4 * mib);
  REQUIRE(slab.commit(chunk) == 0);
  Extent extent;
  CHECK(slab.reserve(mib, &extent) == ENOSPC);
  CHECK(slab.committed_bytes() == 0);
  slab.add(chunk);
  REQUIRE(slab.reserve(4 * mib, &extent) == 0);
  slab.release(extent);
  CHECK(slab.take_surplus().bytes == 0);  // not before steps have gone without it
  for (unsigned i = 0; i <= Slab::steps_until_given_back; ++i) slab.trim();
  const Slab::Chunk going = slab.take_surplus();
  CHECK(going.bytes == 4 * mib);
  CHECK(slab.reserve(mib, &extent) == ENOSPC);
  CHECK(slab.used_bytes() == 0);
  CHECK(slab.may_grow_for(16 * mib));
  slab.decommit(going);
  slab.removed(going);
  CHECK(slab.committed_bytes() == 0);
}

TEST_CASE("GrowthIsAsMuchAsIsNeededAtLeastAndNeverPastTheCapacity") {
  SlabOf16MiB slab;
  Extent extent;
  REQUIRE(take(slab, 15 * mib + 8192, &extent) == 0);
  CHECK(slab.growth_for(4096, true).bytes == mib - 8192);
  CHECK(slab.growth_for(4096, false).bytes == 4096);
  CHECK_FALSE(slab.may_grow_for(mib));
  CHECK(slab.growth_for(mib, false).bytes == 0);
}

TEST_CASE("ALoweredLimitGivesNothingToAnybodyBeyondIt") {
  SlabOf16MiB slab;
  Extent extents[16];
  for (Extent& extent : extents) REQUIRE(take(slab, mib, &extent) == 0);
  slab.release(extents[3]);
  slab.release(extents[12]);
  slab.set_limit(8 * mib);
  CHECK(slab.limit_bytes() == 8 * mib);
  CHECK(slab.is_over_limit());
  CHECK_FALSE(slab.is_beyond_limit(extents[7]));
  CHECK(slab.is_beyond_limit(extents[8]));
  CHECK(slab.used_bytes() == 14 * mib);
  Extent more;
  REQUIRE(take(slab, mib, &more) == 0);
  CHECK(more == extents[3]);
  CHECK(take(slab, 1, &more) == ENOSPC);
  for (int i = 8; i < 16; ++i)
    if (i != 12) slab.release(extents[i]);
  CHECK(take(slab, 1, &more) == ENOSPC);
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == 8 * mib);
  CHECK(slab.used_bytes() == 8 * mib);
  CHECK_FALSE(slab.is_over_limit());
}

TEST_CASE("ARaisedLimitGivesBackWhatWasBeyondIt") {
  SlabOf16MiB slab;
  Extent extents[16];
  for (Extent& extent : extents) REQUIRE(take(slab, mib, &extent) == 0);
  slab.set_limit(4 * mib);
  for (const int i : {5, 6, 9, 14}) slab.release(extents[i]);
  slab.set_limit(10 * mib);
  Extent more;
  REQUIRE(take(slab, 2 * mib, &more) == 0);
  CHECK(more == Extent{5 * mib, 2 * mib});
  REQUIRE(take(slab, mib, &more) == 0);
  CHECK(more == extents[9]);
  CHECK(take(slab, 1, &more) == ENOSPC);
  slab.set_limit(64 * mib);
  CHECK(slab.limit_bytes() == 16 * mib);
  CHECK_FALSE(slab.is_over_limit());
  REQUIRE(take(slab, mib, &more) == 0);
  CHECK(more == extents[14]);
  CHECK(slab.used_bytes() == 16 * mib);
}

TEST_CASE("WhatGrewWhileTheLimitFellIsBeyondIt") {
  SlabOf16MiB slab;
  Extent first;
  REQUIRE(take(slab, mib, &first) == 0);
  const Slab::Chunk chunk = slab.growth_for(4 * mib, false);
  REQUIRE(slab.commit(chunk) == 0);
  slab.set_limit(2 * mib);
  slab.add(chunk);
  Extent more;
  CHECK(slab.reserve(mib, &more) == ENOSPC);
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == mib);
  REQUIRE(take(slab, mib, &more) == 0);
  CHECK(take(slab, 1, &more) == ENOSPC);
  slab.set_limit(0);
  slab.release(first);
  slab.release({mib, mib});
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == 0);
  CHECK(take(slab, 1, &more) == ENOSPC);
}

TEST_CASE("ALimitOfAnyNumberOfBytesIsOneOfWholeUnits") {
  SlabOf16MiB slab;
  slab.set_limit(3 * mib + 5000);
  CHECK(slab.limit_bytes() == 3 * mib + Slab::unit_bytes);
  Extent extent;
  for (int i = 0; i < 3; ++i) REQUIRE(take(slab, mib, &extent) == 0);
  REQUIRE(take(slab, 1, &extent) == 0);
  CHECK(take(slab, 1, &extent) == ENOSPC);
  slab.set_limit(5 * mib + 1);
  REQUIRE(take(slab, mib, &extent) == 0);
  std::memset(slab.at(extent), 1, extent.bytes);
}
