// The NVMe tier's own promises; what it shares with other tiers is in the conformance suite.
#include "tiers/nvme_tier.h"

#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "support.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

using Io = NvmeTier::Io;

NvmeTier::Options small(Io io = Io::automatic) {
  return {.capacity_bytes = 16 * mib, .grow_step_bytes = 4 * mib, .io = io};
}

Extent reserve(Tier& tier, std::uint64_t bytes) {
  Extent extent;
  REQUIRE(tier.reserve(bytes, &extent) == 0);
  return extent;
}

int other_file() {
  int fd = -1;
  REQUIRE(open_pool_file(TERRACE_TEST_POOL_DIR, &fd) == 0);
  return fd;
}

std::int64_t size_of(int fd) {
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return status.st_size;
}

}  // namespace

TEST_CASE("Options out of range are refused and the descriptor stays the caller's") {
  NvmeTier::Options options = small();
  SECTION("no queue") { options.queue_depth = 0; }
  SECTION("a queue too deep") { options.queue_depth = max_queue_depth + 1; }
  SECTION("no capacity") { options.capacity_bytes = 0; }
  SECTION("too much capacity") { options.capacity_bytes = ExtentAllocator::max_capacity_bytes * 2; }
  SECTION("too wide a step") { options.grow_step_bytes = ExtentAllocator::max_capacity_bytes + 1; }
  const int fd = other_file();
  NvmeTier tier;
  CHECK(tier.open(fd, options) == EINVAL);
  CHECK(tier.fd() == -1);
  REQUIRE(tier.open(fd, small()) == 0);
  CHECK(tier.open(fd, small()) == EBUSY);
}

TEST_CASE("A closed tier can be opened again") {
  NvmeTier tier;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(open_nvme(tier, small()) == 0);
    CHECK(tier.space().used_bytes == 0);
    const Extent extent = reserve(tier, mib);
    Buffer buffer(mib);
    CHECK(write(tier, extent, buffer) == 0);
    tier.close();
    CHECK(tier.fd() == -1);
    CHECK(tier.wait_fd() == -1);
  }
}

TEST_CASE("Every descriptor is closed on exec") {
  NvmeTier tier;
  REQUIRE(open_nvme(tier, small()) == 0);
  CHECK((::fcntl(tier.fd(), F_GETFD) & FD_CLOEXEC) != 0);
  if (tier.wait_fd() >= 0) CHECK((::fcntl(tier.wait_fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("Blocks are allocated when space is reserved, and reused") {
  NvmeTier tier;
  REQUIRE(open_nvme(tier, small()) == 0);
  CHECK(tier.preallocated_bytes() == 0);
  for (int i = 0; i < 10; ++i) tier.release(reserve(tier, 3 * mib));
  CHECK(tier.preallocated_bytes() == 4 * mib);
  reserve(tier, 16 * mib);
  CHECK(tier.preallocated_bytes() == 16 * mib);
}

TEST_CASE("A limit below the capacity bounds what is allocated, ahead of need too") {
  NvmeTier tier;
  REQUIRE(open_nvme(tier, {.capacity_bytes = 256 * mib, .grow_step_bytes = 64 * mib}) == 0);
  tier.set_limit(32 * mib);
  Extent extent;
  REQUIRE(tier.reserve(mib, &extent) == 0);
  CHECK(tier.preallocated_bytes() == 2 * mib);
  for (std::uint64_t taken = mib; taken < 32 * mib; taken += mib) REQUIRE(tier.reserve(mib, &extent) == 0);
  CHECK(tier.preallocated_bytes() == 32 * mib);
  const Extent last = extent;
  CHECK(tier.reserve(mib, &extent) == ENOSPC);
  CHECK(extent == last);
  CHECK(tier.space().used_bytes == 32 * mib);
  tier.set_limit(8 * mib);  // what is there already may be used again
  tier.release(last);
  CHECK(tier.reserve(mib, &extent) == 0);
  CHECK(extent == last);
  CHECK(tier.reserve(mib, &extent) == ENOSPC);
  tier.set_limit(64 * mib);
  CHECK(tier.reserve(mib, &extent) == 0);
  CHECK(tier.preallocated_bytes() == 36 * mib);
}

TEST_CASE("The file doubles from 64 MiB on until it grows by whole steps") {
  NvmeTier tier;
  REQUIRE(open_nvme(tier, {.capacity_bytes = 4096 * mib, .grow_step_bytes = 256 * mib}) == 0);
  Extent extent;
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t taken = 0; taken < 600 * mib; taken += mib) {
    REQUIRE(tier.reserve(mib, &extent) == 0);
    const std::uint64_t size = tier.preallocated_bytes() / mib;
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  }
  CHECK(sizes == std::vector<std::uint64_t>{64, 128, 256, 512, 768});
}

TEST_CASE("PoolFullIsEnospcAndNothingMoves") {
  const int result = in_small_disk(8 * mib, [](const char* directory) {
    NvmeTier tier;
    if (open_nvme(tier, {.capacity_bytes = 64 * mib}, true, directory) != 0) return 1;
    Extent kept;
    if (tier.reserve(4 * mib, &kept) != 0) return 2;
    Buffer buffer(4 * mib);
    buffer.fill(1);
    if (write(tier, kept, buffer) != 0) return 3;
    const std::uint64_t used = tier.space().used_bytes;
    Extent refused{1, 2};
    if (tier.reserve(8 * mib, &refused) != ENOSPC) return 4;
    if (!(refused == Extent{1, 2}) || tier.space().used_bytes != used) return 5;
    Buffer back(4 * mib);
    if (read(tier, kept, back) != 0 || !back.holds(1)) return 6;
    return tier.reserve(mib, &refused) == 0 ? 0 : 7;
  });
  if (result == cannot_mount) return void(puts("SKIP: no permission to mount a tmpfs"));
  CHECK(result == 0);
}

TEST_CASE("TruncatedPoolIsEioNeverStaleBytes") {
  NvmeTier tier;
  REQUIRE(open_nvme(tier, small(GENERATE(Io::automatic, Io::pread))) == 0);
  const Extent extent = reserve(tier, 2 * mib);
  Buffer buffer(2 * mib);
  buffer.fill(2);
  REQUIRE(write(tier, extent, buffer) == 0);
  REQUIRE(::ftruncate(tier.fd(), mib) == 0);
  CHECK(read(tier, extent, buffer) == EIO);
  CHECK(read(tier, {mib, mib}, buffer) == EIO);
  CHECK(read(tier, {0, mib}, buffer) == 0);
  CHECK(tier.in_flight() == 0);
}

TEST_CASE("UnreadableBufferIsEfaultAndTheTierGoesOn") {
  NvmeTier tier;
  REQUIRE(open_nvme(tier, small(GENERATE(Io::automatic, Io::pread))) == 0);
  const Extent extent = reserve(tier, 64 * kib);
  Buffer buffer(64 * kib);
  REQUIRE(::mprotect(buffer.data(), buffer.bytes(), PROT_NONE) == 0);
  CHECK(write(tier, extent, buffer) == EFAULT);
  REQUIRE(::mprotect(buffer.data(), buffer.bytes(), PROT_READ | PROT_WRITE) == 0);
  CHECK(write(tier, extent, buffer) == 0);
}

TEST_CASE("DescriptorReusedByTheProgramIsNotWritten") {
  const Io io = GENERATE(Io::automatic, Io::pread);
  NvmeTier tier;
  REQUIRE(open_nvme(tier, small(io)) == 0);
  const Extent extent = reserve(tier, mib);
  Buffer buffer(mib);
  buffer.fill(3);
  REQUIRE(write(tier, extent, buffer) == 0);
  const int number = tier.fd();
  const int programs_file = other_file();
  REQUIRE(::dup3(programs_file, number, O_CLOEXEC) == number);
  // The ring holds the file itself and goes on; by number it is refused. Never the program's file.
  const bool ring = tier.wait_fd() >= 0;
  CHECK(write(tier, extent, buffer) == (ring ? 0 : EBADF));
  Buffer back(mib);
  CHECK(read(tier, extent, back) == (ring ? 0 : EBADF));
  CHECK(back.holds(3) == ring);
  Extent refused;
  CHECK(tier.reserve(8 * mib, &refused) == EBADF);
  CHECK(size_of(programs_file) == 0);
  tier.close();
  CHECK(::fcntl(number, F_GETFD) >= 0);
  ::close(number);
  ::close(programs_file);
}

TEST_CASE("ClosedWithTransfersInFlight waits for the device") {
  const std::uint64_t bytes = 2 * mib;
  Buffer buffer(8 * bytes);
  buffer.fill(4);
  NvmeTier tier;
  REQUIRE(open_nvme(tier, small()) == 0);
  const Extent extent = reserve(tier, buffer.bytes());
  const int file = ::fcntl(tier.fd(), F_DUPFD_CLOEXEC, 0);
  for (std::uint64_t i = 0; i < 8; ++i)
    REQUIRE(tier.submit({Direction::write, {extent.offset + i * bytes, bytes}, buffer.at(i * bytes), i}) ==
            0);
  tier.close();
  CHECK(tier.in_flight() == 0);
  REQUIRE(tier.open(file, small()) == 0);
  Buffer back(buffer.bytes());
  CHECK(read(tier, extent, back) == 0);
  CHECK(back.holds(4));
}

TEST_CASE("SubmitterEndsBeforeTheTransfer and the transfer is not lost") {
  NvmeTier tier;
  REQUIRE(open_nvme(tier, small()) == 0);
  const Extent extent = reserve(tier, 8 * mib);
  Buffer buffer(8 * mib);
  buffer.fill(5);
  int errors = 0;
  std::thread([&] {
    for (std::uint64_t i = 0; i < 8; ++i)
      errors += tier.submit({Direction::write, {extent.offset + i * mib, mib}, buffer.at(i * mib), i});
  }).join();
  CHECK(errors == 0);
  const std::vector<Completion> done = finish(tier);
  CHECK(done.size() == 8);
  for (const Completion& one : done) CHECK(one.error == 0);
  Buffer back(8 * mib);
  CHECK(read(tier, extent, back) == 0);
  CHECK(back.holds(5));
}
