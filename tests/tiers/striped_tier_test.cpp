// How extents spread over drives, and the drives' queues as one. What the striped tier shares with every
// other is in the conformance suite; what one drive's trouble means for the others, in
// striped_faults_test.cpp.
#include <array>
#include <catch2/catch.hpp>
#include <set>

#include "striped_drives.h"
#include "support.h"
#include "tiers/adaptors/slow_adaptor.h"
#include "tiers/striped_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

using TracedCall = TraceAdaptor::Operation;

bool is_readable(int fd) {
  pollfd waited{fd, POLLIN, 0};
  return ::poll(&waited, 1, 0) == 1;
}

}  // namespace

TEST_CASE("Extents take turns over equal drives") {
  Drives drives({64 * mib, 64 * mib, 64 * mib});
  for (int round = 0; round < 8; ++round) CHECK(drives.spread(3) == std::vector<int>{1, 1, 1});
}

TEST_CASE("Extents of any size give equal drives equal bytes") {
  Drives drives({256 * mib, 256 * mib});
  for (int i = 0; i < 60; ++i) drives.reserve((i % 7 + 1) * 64 * kib + (i % 3 == 0 ? mib : 0));
  const std::uint64_t one = drives.dram[0].space().used_bytes;
  const std::uint64_t other = drives.dram[1].space().used_bytes;
  CHECK((one > other ? one - other : other - one) <= run_bytes);
}

TEST_CASE("A drive three times as large takes three times as much, and never a long row") {
  Drives drives({64 * mib, 192 * mib});
  for (int round = 0; round < 8; ++round) {
    const std::vector<int> taken = drives.spread(8);
    CHECK(taken[0] >= 1);
    CHECK(taken[0] <= 3);
  }
  CHECK(drives.dram[0].space().used_bytes == 32 * mib);
}

TEST_CASE("A drive that was emptied takes more, while the others go on taking some") {
  Drives drives({128 * mib, 128 * mib});
  std::vector<Extent> first;
  for (int i = 0; i < 48; ++i) {
    const Extent extent = drives.reserve();
    if (drives.drive_of(extent) == 0) first.push_back(extent);
  }
  for (const Extent& extent : first) drives.tier.release(extent);
  const std::vector<int> taken = drives.spread(10);
  CHECK(taken[0] >= 6);
  CHECK(taken[1] >= 1);
}

TEST_CASE("An extent is whole on one drive: what no drive has room for is ENOSPC") {
  Drives drives({16 * mib, 16 * mib});
  Extent extent;
  CHECK(drives.tier.reserve(20 * mib, &extent) == ENOSPC);
  CHECK(drives.tier.reserve(16 * mib, &extent) == 0);
  CHECK(drives.tier.space().used_bytes == 16 * mib);
}

TEST_CASE("Transfers reach the drive that their offset tells, by its own offsets") {
  Drives drives({16 * mib, 16 * mib});
  Buffer buffer(64 * kib);
  const Extent one = drives.reserve();
  const Extent other = drives.reserve();
  CHECK(one == Extent{0, run_bytes});
  CHECK(other == Extent{16 * mib, run_bytes});
  CHECK(write(drives.tier, {other.offset + mib, 64 * kib}, buffer) == 0);
  CHECK(drives.trace[0].count(TracedCall::submit) == 0);
  REQUIRE(drives.trace[1].count(TracedCall::submit) == 1);
  CHECK(drives.trace[1].call(1).extent == Extent{mib, 64 * kib});
}

TEST_CASE("A transfer over the end of a drive is EINVAL") {
  Drives drives({16 * mib, 16 * mib});
  Buffer buffer(128 * kib);
  for (const std::uint64_t end : {16 * mib, 32 * mib})
    CHECK(write(drives.tier, {end - 64 * kib, 128 * kib}, buffer) == EINVAL);
}

TEST_CASE("All drives together may have the shallowest one's queue in flight") {
  DramTier deep, shallow;
  REQUIRE(deep.open(16 * mib, 16) == 0);
  REQUIRE(shallow.open(16 * mib, 5) == 0);
  const StripedTier::Drive list[] = {{&deep}, {&shallow}};
  StripedTier tier;
  REQUIRE(tier.open(list) == 0);
  CHECK(tier.queue_depth() == 5);
  Buffer buffer(64 * kib);
  for (std::uint64_t i = 0; i < 5; ++i)
    CHECK(tier.submit({Direction::write, {i % 2 * 16 * mib, 64 * kib}, buffer.data(), i}) == 0);
  CHECK(tier.submit({Direction::write, {0, 64 * kib}, buffer.data(), 5}) == EAGAIN);
  CHECK(tier.in_flight() == 5);
  CHECK(finish(tier).size() == 5);
}

TEST_CASE("No drive's completions wait behind another's for ever") {
  Drives drives({16 * mib, 16 * mib});
  Buffer buffer(64 * kib);
  const auto submit = [&](std::uint64_t drive) {
    REQUIRE(drives.tier.submit({Direction::write, {drive * 16 * mib, 64 * kib}, buffer.data(), drive}) == 0);
  };
  std::set<std::uint64_t> seen;
  submit(1);
  for (int i = 0; i < 2; ++i) {
    submit(0);
    Completion one;
    REQUIRE(drives.tier.poll({&one, 1}) == 1);
    seen.insert(one.token);
  }
  CHECK(seen == std::set<std::uint64_t>{0, 1});
  finish(drives.tier);
}

TEST_CASE("The descriptor to wait for tells of each drive, and of none when nothing is due") {
  std::array<DramTier, 2> dram;
  for (DramTier& one : dram) REQUIRE(one.open(16 * mib, 16) == 0);
  SlowAdaptor slow[] = {SlowAdaptor(dram[0], {.latency_ns = 1000}),
                        SlowAdaptor(dram[1], {.latency_ns = 1000})};
  for (SlowAdaptor& one : slow) REQUIRE(one.open() == 0);
  const StripedTier::Drive list[] = {{&slow[0]}, {&slow[1]}};
  StripedTier tier;
  REQUIRE(tier.open(list) == 0);
  REQUIRE(tier.wait_fd() >= 0);
  CHECK((::fcntl(tier.wait_fd(), F_GETFD) & FD_CLOEXEC) != 0);
  Buffer buffer(64 * kib);
  for (const std::uint64_t offset : {0 * mib, 16 * mib}) {
    CHECK_FALSE(is_readable(tier.wait_fd()));
    REQUIRE(tier.submit({Direction::write, {offset, 64 * kib}, buffer.data(), offset}) == 0);
    pollfd waited{tier.wait_fd(), POLLIN, 0};
    CHECK(::poll(&waited, 1, 30'000) == 1);
    CHECK(finish(tier).size() == 1);
  }
}

TEST_CASE("Drives of memory leave nothing to wait for") {
  Drives drives({16 * mib, 16 * mib});
  CHECK(drives.tier.wait_fd() == -1);
}

TEST_CASE("A limit is divided as the capacity is") {
  NvmeTier nvme[2];
  REQUIRE(open_nvme(nvme[0], {.capacity_bytes = 64 * mib, .grow_step_bytes = 32 * mib}) == 0);
  REQUIRE(open_nvme(nvme[1], {.capacity_bytes = 192 * mib, .grow_step_bytes = 32 * mib}) == 0);
  const StripedTier::Drive list[] = {{&nvme[0]}, {&nvme[1]}};
  StripedTier tier;
  REQUIRE(tier.open(list) == 0);
  tier.set_limit(64 * mib);
  Extent extent;
  int taken = 0;
  while (tier.reserve(run_bytes, &extent) == 0) ++taken;
  CHECK(taken == 32);
  CHECK(nvme[0].preallocated_bytes() == 16 * mib);
  CHECK(nvme[1].preallocated_bytes() == 48 * mib);
  tier.set_limit(UINT64_MAX);
  CHECK(tier.reserve(run_bytes, &extent) == 0);
}

TEST_CASE("An extent's place is its drive's") {
  Drives drives({16 * mib, 16 * mib});
  FailingAdaptor outer(drives.tier);
  CHECK(std::string(outer.place_of(0)) == "/a");
  CHECK(std::string(outer.place_of(16 * mib - 1)) == "/a");
  CHECK(std::string(outer.place_of(16 * mib)) == "/b");
  CHECK(std::string(outer.place_of(32 * mib)).empty());
  CHECK(std::string(drives.dram[0].place_of(0)).empty());
}

TEST_CASE("Drives that are none, too many or missing are refused") {
  std::array<DramTier, StripedTier::most_drives + 1> dram;
  std::array<StripedTier::Drive, dram.size()> list;
  for (std::size_t i = 0; i < dram.size(); ++i) {
    REQUIRE(dram[i].open(mib) == 0);
    list[i].tier = &dram[i];
  }
  StripedTier tier;
  CHECK(tier.open({}) == EINVAL);
  CHECK(tier.open(list) == EINVAL);
  const StripedTier::Drive missing[] = {{&dram[0]}, {}};
  CHECK(tier.open(missing) == EINVAL);
  Extent extent;
  CHECK(tier.reserve(block_bytes, &extent) == ENOSPC);
  REQUIRE(tier.open({list.data(), StripedTier::most_drives}) == 0);
  CHECK(tier.open({list.data(), 1}) == EBUSY);
  CHECK(tier.space().capacity_bytes == StripedTier::most_drives * mib);
  tier.close();
  CHECK(tier.open({list.data(), 1}) == 0);
  CHECK(std::string(tier.name()) == "striped");
  CHECK(std::string(tier.io()) == "memcpy");
}
