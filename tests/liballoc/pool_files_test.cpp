// How a pool is divided over its directories.
#include "liballoc/agent/pool/pool_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>
#include <vector>

namespace terrace::liballoc {
namespace {

using Amounts = std::vector<std::uint64_t>;

constexpr std::uint64_t whole_run_bytes = 2ULL << 20;

Amounts divided(std::uint64_t whole, const Amounts& rooms) {
  Amounts parts(rooms.size(), 99);
  divide_evenly(whole, rooms, parts);
  return parts;
}

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

}  // namespace

TEST_CASE("A pool is divided into equal parts") {
  CHECK(divided(12, {100, 100, 100}) == Amounts{4, 4, 4});
  CHECK(divided(12, {100}) == Amounts{12});
  CHECK(divided(13, {100, 100}) == Amounts{6, 7});
  CHECK(divided(0, {100, 100}) == Amounts{0, 0});
}

TEST_CASE("What one drive has no room for is the others'") {
  CHECK(divided(90, {10, 100, 100}) == Amounts{10, 40, 40});
  CHECK(divided(90, {100, 10, 20}) == Amounts{60, 10, 20});
  CHECK(divided(90, {0, 100}) == Amounts{0, 90});
}

TEST_CASE("A pool is as large as was asked for, whatever the drives have") {
  CHECK(divided(90, {20}) == Amounts{90});
  CHECK(divided(90, {10, 20}) == Amounts{10, 80});
}

TEST_CASE("Files of a pool are made in each directory, share a file system's room, and are closed") {
  PoolDirectories directories;
  REQUIRE(directories.read("/var/tmp,/tmp/../var/tmp") == nullptr);
  int fds[2] = {-1, -1};
  {
    PoolFiles files;
    const char* failed = "";
    REQUIRE(files.make(directories, &failed) == 0);
    REQUIRE(files.files().size() == 2);
    for (std::size_t i = 0; i < 2; ++i) fds[i] = files.files()[i].fd;
    CHECK((fcntl(fds[1], F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(fds[0] != fds[1]);
    CHECK(files.first_twin() == &files.files()[1]);
    files.divide(10 * whole_run_bytes);
    CHECK(files.files()[0].bytes == 5 * whole_run_bytes);
    CHECK(files.files()[1].bytes == 5 * whole_run_bytes);
    files.divide(0);  // 80% of what is free, once, and 64 GiB at most
    const std::uint64_t free_bytes = files.files()[0].free_bytes + files.files()[1].free_bytes;
    const std::uint64_t sum = files.files()[0].bytes + files.files()[1].bytes;
    const std::uint64_t expected = std::min(std::uint64_t{64} << 30, free_bytes / 5 * 4);
    CHECK(sum <= expected);
    CHECK(sum + 4 * whole_run_bytes >= expected);
  }
  CHECK_FALSE(is_open(fds[0]));
  CHECK_FALSE(is_open(fds[1]));
}

TEST_CASE("DirectoryThatCannotBeUsedIsNamed, and what was opened before is closed") {
  PoolDirectories directories;
  REQUIRE(directories.read("/var/tmp,/nonexistent/pool,/var/tmp") == nullptr);
  const int before = dup(0);
  close(before);
  {
    PoolFiles files;
    const char* failed = "";
    CHECK(files.make(directories, &failed) == ENOENT);
    CHECK(std::string(failed) == "/nonexistent/pool");
  }
  const int after = dup(0);
  close(after);
  CHECK(after == before);
}

TEST_CASE("A pool's file that is given is divided into nothing") {
  PoolFiles files;
  files.adopt(open("/dev/null", O_RDWR | O_CLOEXEC), 7 * whole_run_bytes + 5);
  files.divide(7 * whole_run_bytes + 5);
  REQUIRE(files.files().size() == 1);
  CHECK(files.files()[0].bytes == 7 * whole_run_bytes);
  CHECK(files.first_twin() == nullptr);
}

}  // namespace terrace::liballoc
