// The NVM tier: conformance over a directory (works anywhere) and over slow NUMA nodes (where there are
// some).
#include "tiers/memory/nvm_tier.h"

#include <catch2/catch.hpp>

#include "support.h"
#include "tier_conformance.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

struct OnDirectory : Subject {
  explicit OnDirectory(std::uint64_t capacity) {
    REQUIRE(nvm_.open_directory(TERRACE_TEST_POOL_DIR, capacity, 16) == 0);
  }
  Tier& tier() override { return nvm_; }
  NvmTier nvm_;
};

struct OnSlowNodes : Subject {
  explicit OnSlowNodes(std::uint64_t capacity) { REQUIRE(nvm_.open_kmem(capacity, 16) == 0); }
  Tier& tier() override { return nvm_; }
  NvmTier nvm_;
};

}  // namespace

TEST_CASE("NvmInADirectory conforms") {
  check_conformance([](std::uint64_t capacity) { return std::make_unique<OnDirectory>(capacity); });
}

TEST_CASE("NvmOnSlowNodes conforms") {
  if (NvmTier().open_kmem(mib) == ENODEV) {
    puts("SKIP: this machine has no NUMA node of slow memory (KMEM DAX)");
    return;
  }
  check_conformance([](std::uint64_t capacity) { return std::make_unique<OnSlowNodes>(capacity); });
}

TEST_CASE("A directory that is none is ENODEV, a capacity out of range EINVAL") {
  CHECK(NvmTier().open_directory("/nonexistent/terrace", mib) == ENODEV);
  CHECK(NvmTier().open_directory(TERRACE_TEST_POOL_DIR, 0) == EINVAL);
}

TEST_CASE("A released extent gives its bytes back") {
  NvmTier tier;
  REQUIRE(tier.open_directory(TERRACE_TEST_POOL_DIR, 8 * mib) == 0);
  Extent extent;
  REQUIRE(tier.reserve(mib, &extent) == 0);
  Buffer buffer(mib);
  buffer.fill(1);
  REQUIRE(write(tier, extent, buffer) == 0);
  tier.release(extent);
  Extent again;
  REQUIRE(tier.reserve(mib, &again) == 0);
  REQUIRE(again == extent);
  // A hole in the file reads as zeros; what was written is gone.
  REQUIRE(read(tier, again, buffer) == 0);
  CHECK(*buffer.at(0) == 0);
  CHECK(std::equal(buffer.at(0), buffer.at(mib - 1), buffer.at(1)));
}
