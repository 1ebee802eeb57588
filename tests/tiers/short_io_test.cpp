// Partial transfers and refused facilities, by standing between the tier and the kernel.
//
// The linker's --wrap sends the calls named below here first. Reads and writes are really carried out, only
// shorter than asked, so the data comes from the file system and a wrong continuation shows as wrong bytes.
#include <fcntl.h>
#include <liburing.h>
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <cstdarg>

#include "support.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

// What the kernel is made to do; reset by each test.
struct Kernel {
  std::uint64_t most_bytes = UINT64_MAX;  // per request
  int interruptions = 0;                  // answers of EINTR before the real one
  int ring_error = 0;                     // answer of io_uring_setup
  int submit_error = 0;                   // answer of io_uring_enter
  bool no_tmpfile = false;
  std::uint64_t quota_bytes = UINT64_MAX;  // of a file
  int requests = 0;                        // reads and writes seen
} kernel;

}  // namespace

extern "C" {

long __real_syscall(long number, ...);
int __real_io_uring_submit(io_uring* ring);
int __real_io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* params);
int __real_open(const char* path, int flags, ...);
int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);

// Transfers, and the fcntl by which a descriptor gets a high number, are called through syscall(2).
long __wrap_syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  const int fd = va_arg(arguments, int);
  void* const buffer = va_arg(arguments, void*);
  const std::uint64_t bytes = va_arg(arguments, std::uint64_t);
  const std::uint64_t offset = va_arg(arguments, std::uint64_t);
  va_end(arguments);
  if (number != SYS_pread64 && number != SYS_pwrite64)
    return __real_syscall(number, fd, buffer, bytes, offset);
  ++kernel.requests;
  if (kernel.interruptions > 0) {
    --kernel.interruptions;
    errno = EINTR;
    return -1;
  }
  return __real_syscall(number, fd, buffer, std::min(bytes, kernel.most_bytes), offset);
}

int __wrap_io_uring_submit(io_uring* ring) {
  if (kernel.interruptions > 0) {
    --kernel.interruptions;
    return -EINTR;
  }
  if (kernel.submit_error != 0) return -kernel.submit_error;
  io_uring_sqe& last = ring->sq.sqes[(ring->sq.sqe_tail - 1) & ring->sq.ring_mask];
  last.len = static_cast<unsigned>(std::min<std::uint64_t>(last.len, kernel.most_bytes));
  ++kernel.requests;
  return __real_io_uring_submit(ring);
}

int __wrap_io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* params) {
  return kernel.ring_error != 0 ? -kernel.ring_error
                                : __real_io_uring_queue_init_params(entries, ring, params);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (static_cast<std::uint64_t>(offset + bytes) > kernel.quota_bytes) {
    errno = EDQUOT;
    return -1;
  }
  return __real_fallocate(fd, mode, offset, bytes);
}

int __wrap_open(const char* path, int flags, ...) {
  if (kernel.no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return __real_open(path, flags, mode);
}

}  // extern "C"

namespace {

using Io = NvmeTier::Io;

const NvmeTier::Options automatic{.capacity_bytes = 8 * mib, .grow_step_bytes = 0};

struct Fixture {
  Fixture() : Fixture(GENERATE(Io::automatic, Io::pread)) {}
  explicit Fixture(Io io) {
    kernel = {};
    NvmeTier::Options options = automatic;
    options.io = io;
    REQUIRE(open_nvme(tier, options) == 0);
    REQUIRE(tier.reserve(buffer.bytes(), &extent) == 0);
    buffer.fill(1);
  }
  ~Fixture() { kernel = {}; }
  NvmeTier tier;
  Extent extent;
  Buffer buffer{mib};
  Buffer back{mib};
};

struct RingFixture : Fixture {
  RingFixture() : Fixture(Io::automatic) {
    if (!ready()) std::puts("SKIP: io_uring is refused on this machine");
  }
  bool ready() const { return tier.wait_fd() >= 0; }
};

}  // namespace

TEST_CASE("ShortReadIsCarriedOn") {
  Fixture f;
  REQUIRE(write(f.tier, f.extent, f.buffer) == 0);
  kernel = {.most_bytes = 3 * block_bytes};
  CHECK(read(f.tier, f.extent, f.back) == 0);
  CHECK(f.back.holds(1));
  CHECK(kernel.requests == static_cast<int>((mib + 3 * block_bytes - 1) / (3 * block_bytes)));
}

TEST_CASE("ShortWriteIsCarriedOn") {
  Fixture f;
  kernel = {.most_bytes = 5 * block_bytes};
  CHECK(write(f.tier, f.extent, f.buffer) == 0);
  CHECK(kernel.requests > 50);
  kernel = {};
  CHECK(read(f.tier, f.extent, f.back) == 0);
  CHECK(f.back.holds(1));
}

TEST_CASE("ResultBetweenBlocksGoesOnFromTheBlock") {
  Fixture f;
  REQUIRE(write(f.tier, f.extent, f.buffer) == 0);
  kernel = {.most_bytes = 2 * block_bytes + 512};
  CHECK(read(f.tier, f.extent, f.back) == 0);
  CHECK(f.back.holds(1));
}

TEST_CASE("DeviceThatNeverMovesABlockIsEio") {
  Fixture f;
  kernel = {.most_bytes = 512};
  CHECK(write(f.tier, f.extent, f.buffer) == EIO);
  CHECK(f.tier.in_flight() == 0);
  kernel = {};
  CHECK(write(f.tier, f.extent, f.buffer) == 0);
}

TEST_CASE("InterruptedTransferIsRepeated") {
  Fixture f;
  kernel = {.interruptions = 5};
  CHECK(write(f.tier, f.extent, f.buffer) == 0);
  CHECK(kernel.interruptions == 0);
  CHECK(read(f.tier, f.extent, f.back) == 0);
  CHECK(f.back.holds(1));
}

TEST_CASE("RefusedSubmitIsTakenBackWholeAndCarriedOut") {
  RingFixture f;
  if (!f.ready()) return;
  // More refusals than the ring has places: entries left behind would fill it, or be sent later.
  for (unsigned i = 0; i < 100; ++i) {
    const int refusal = i % 3 == 0 ? EAGAIN : i % 3 == 1 ? EPERM : EBADF;
    f.buffer.fill(i);
    kernel = {.submit_error = refusal};
    REQUIRE(write(f.tier, f.extent, f.buffer) == 0);
    CHECK(kernel.requests == 1);
    REQUIRE(read(f.tier, f.extent, f.back) == 0);
    REQUIRE(f.back.holds(i));
  }
  kernel = {};
  CHECK(f.tier.in_flight() == 0);
  f.buffer.fill(200);
  CHECK(write(f.tier, f.extent, f.buffer) == 0);
  CHECK(kernel.requests == 1);
  CHECK(read(f.tier, f.extent, f.back) == 0);
  CHECK(f.back.holds(200));
}

TEST_CASE("RestOfAShortTransferThatTheRingRefusesIsCarriedOut") {
  RingFixture f;
  if (!f.ready()) return;
  kernel = {.most_bytes = 7 * block_bytes};
  REQUIRE(f.tier.submit({Direction::write, f.extent, f.buffer.data(), 7}) == 0);
  kernel.submit_error = EPERM;
  const std::vector<Completion> done = finish(f.tier);
  REQUIRE(done.size() == 1);
  CHECK(done[0].error == 0);
  CHECK(kernel.requests == (mib / block_bytes + 6) / 7);
  kernel = {};
  CHECK(read(f.tier, f.extent, f.back) == 0);
  CHECK(f.back.holds(1));
}

TEST_CASE("WithoutIoUringTransfersGoByPread") {
  const int refusal = GENERATE(ENOSYS, EPERM, ENOMEM);
  kernel = {.ring_error = refusal};
  NvmeTier tier;
  REQUIRE(open_nvme(tier, automatic) == 0);
  CHECK(std::string(tier.io()) == "pread");
  CHECK(tier.wait_fd() == -1);
  Extent extent;
  REQUIRE(tier.reserve(mib, &extent) == 0);
  Buffer buffer(mib);
  buffer.fill(3);
  CHECK(write(tier, extent, buffer) == 0);
  NvmeTier insists;
  CHECK(open_nvme(insists, {.capacity_bytes = mib, .grow_step_bytes = 0, .io = Io::io_uring}) == refusal);
  CHECK(insists.fd() == -1);
  kernel = {};
}

TEST_CASE("ChildWithoutARingReadsByPread") {
  kernel = {};
  NvmeTier tier;
  REQUIRE(open_nvme(tier, automatic) == 0);
  Extent extent;
  REQUIRE(tier.reserve(mib, &extent) == 0);
  Buffer buffer(mib);
  buffer.fill(4);
  REQUIRE(write(tier, extent, buffer) == 0);
  const int result = in_child([&] {
    kernel = {.ring_error = EMFILE};
    if (tier.reopen_after_fork() != 0) return 1;
    Buffer back(mib);
    return read(tier, extent, back) == 0 && back.holds(4) && tier.wait_fd() == -1 ? 0 : 2;
  });
  CHECK(result == 0);
}

TEST_CASE("TheStepIsHalvedAtTheEndOfAQuota") {
  kernel = {.quota_bytes = 5 * mib};
  NvmeTier tier;
  REQUIRE(open_nvme(tier, {.capacity_bytes = 4096 * mib, .grow_step_bytes = 1024 * mib}) == 0);
  Extent extent;
  for (int i = 0; i < 5; ++i) REQUIRE(tier.reserve(mib, &extent) == 0);
  CHECK(tier.reserve(mib, &extent) == EDQUOT);
  CHECK(tier.preallocated_bytes() == 5 * mib);
  kernel = {};
}

TEST_CASE("WithoutTmpfileTheFileHasNoNameEither") {
  kernel = {.no_tmpfile = true};
  int fd = -1;
  REQUIRE(open_pool_file(TERRACE_TEST_POOL_DIR, &fd) == 0);
  kernel = {};
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  CHECK(status.st_nlink == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  ::close(fd);
}
