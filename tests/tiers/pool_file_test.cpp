// The pool file: no name, no leak, grows as far as the disk and the limits let it.
#include "tiers/pool_file.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "support.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

int open_here() {
  int fd = -1;
  REQUIRE(open_pool_file(TERRACE_TEST_POOL_DIR, &fd) == 0);
  return fd;
}

struct stat status_of(int fd) {
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return status;
}

std::uint64_t free_bytes(const char* directory) {
  struct statvfs status {};
  return ::statvfs(directory, &status) == 0 ? status.f_bfree * status.f_bsize : 0;
}

// Some of a file's last rites run in the kernel's own time.
// A ring that its process left is taken down by the kernel's workers, which on a busy machine have other
// work.
bool becomes_free(const char* directory, std::uint64_t expected) {
  for (int i = 0; i < 2000 && free_bytes(directory) != expected; ++i) ::usleep(10'000);
  return free_bytes(directory) == expected;
}

int store_in_pool(NvmeTier& tier, const char* directory) {
  if (open_nvme(tier, {.capacity_bytes = 16 * mib, .grow_step_bytes = mib}, true, directory) != 0) return 1;
  Extent extent;
  Buffer buffer(2 * mib);
  buffer.fill(1);
  if (tier.reserve(buffer.bytes(), &extent) != 0) return 2;
  return write(tier, extent, buffer) == 0 ? 0 : 3;
}

}  // namespace

TEST_CASE("The pool file has no name, one owner and is closed on exec") {
  const int fd = open_here();
  CHECK(status_of(fd).st_nlink == 0);
  CHECK((status_of(fd).st_mode & 0777) == 0600);
  CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  ::close(fd);
}

TEST_CASE("O_DIRECT is set unless it is not wanted") {
  int fd = -1;
  REQUIRE(open_pool_file(TERRACE_TEST_POOL_DIR, &fd, false) == 0);
  CHECK((::fcntl(fd, F_GETFL) & O_DIRECT) == 0);
  PoolFile file;
  REQUIRE(file.adopt(fd) == 0);
  CHECK_FALSE(file.direct());
}

TEST_CASE("A directory that is none is reported") {
  int fd = -5;
  CHECK(open_pool_file("/nonexistent/terrace", &fd) == ENOENT);
  CHECK(open_pool_file("/dev/null", &fd) == ENOTDIR);
  CHECK(open_pool_file("/proc", &fd) != 0);
  CHECK(open_pool_file(nullptr, &fd) == EINVAL);
  CHECK(fd == -5);
}

TEST_CASE("A descriptor that cannot be a pool is refused and stays the caller's") {
  PoolFile file;
  CHECK(file.adopt(-1) == EBADF);
  int pipe_ends[2];
  REQUIRE(::pipe2(pipe_ends, O_CLOEXEC) == 0);
  CHECK(file.adopt(pipe_ends[0]) == EINVAL);
  const int fd = open_here();
  REQUIRE(::fcntl(fd, F_SETFL, O_APPEND) == 0);
  CHECK(file.adopt(fd) == EINVAL);
  const int read_only = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  CHECK(file.adopt(read_only) == EINVAL);
  for (const int one : {pipe_ends[0], pipe_ends[1], fd, read_only}) CHECK(::close(one) == 0);
}

TEST_CASE("Growing goes by the step and stops at the limit") {
  const int fd = open_here();
  PoolFile file;
  REQUIRE(file.adopt(fd) == 0);
  REQUIRE(file.grow(mib, 4 * mib, 10 * mib) == 0);
  CHECK(file.allocated_bytes() == 4 * mib);
  CHECK(status_of(fd).st_blocks * 512 >= static_cast<long>(4 * mib));
  REQUIRE(file.grow(3 * mib, 4 * mib, 10 * mib) == 0);
  CHECK(file.allocated_bytes() == 4 * mib);
  REQUIRE(file.grow(9 * mib, 4 * mib, 10 * mib) == 0);
  CHECK(file.allocated_bytes() == 9 * mib);
  CHECK(file.grow(11 * mib, 4 * mib, 10 * mib) == EFBIG);
}

TEST_CASE("FileSizeLimitIsEfbigAndNotSigxfsz") {
  const int result = in_child([] {
    const rlimit limit{mib, mib};
    int fd = -1;
    PoolFile file;
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    if (open_pool_file(TERRACE_TEST_POOL_DIR, &fd) != 0 || file.adopt(fd) != 0) return 2;
    if (file.grow(mib / 2, 64 * mib, 64 * mib) != 0 || file.allocated_bytes() != mib) return 3;
    return file.grow(2 * mib, 64 * mib, 64 * mib) == EFBIG ? 0 : 4;
  });
  CHECK(result == 0);
}

TEST_CASE("TheStepIsHalvedOnAFullDisk") {
  const int result = in_small_disk(8 * mib, [](const char* directory) {
    int fd = -1;
    PoolFile file;
    if (open_pool_file(directory, &fd) != 0 || file.adopt(fd) != 0) return 1;
    if (file.grow(mib, 1024 * mib, 4096 * mib) != 0) return 2;
    if (file.allocated_bytes() < mib || file.allocated_bytes() > 8 * mib) return 3;
    return file.grow(9 * mib, 1024 * mib, 4096 * mib) == ENOSPC ? 0 : 4;
  });
  if (result == cannot_mount) return void(puts("SKIP: no permission to mount a tmpfs"));
  CHECK(result == 0);
}

TEST_CASE("SpaceIsFreeAfterClose") {
  const int result = in_small_disk(32 * mib, [](const char* directory) {
    const std::uint64_t before = free_bytes(directory);
    NvmeTier tier;
    if (const int error = store_in_pool(tier, directory)) return error;
    if (free_bytes(directory) > before - 2 * mib) return 4;
    tier.close();
    return becomes_free(directory, before) ? 0 : 5;
  });
  if (result == cannot_mount) return void(puts("SKIP: no permission to mount a tmpfs"));
  CHECK(result == 0);
}

TEST_CASE("SpaceIsFreeAfterKill") {
  const int result = in_small_disk(32 * mib, [](const char* directory) {
    const std::uint64_t before = free_bytes(directory);
    const int ended = in_child([&] {
      NvmeTier tier;
      if (const int error = store_in_pool(tier, directory)) return error;
      return ::raise(SIGKILL);
    });
    if (ended != 200 + SIGKILL) return 10 + ended % 100;
    return becomes_free(directory, before) ? 0 : 5;
  });
  if (result == cannot_mount) return void(puts("SKIP: no permission to mount a tmpfs"));
  CHECK(result == 0);
}
