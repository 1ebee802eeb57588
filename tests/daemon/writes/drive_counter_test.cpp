#include "daemon/writes/drive_counter.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <catch2/catch.hpp>

#include "tests/daemon/temporary_directory.h"

using namespace terrace;
using namespace terrace::daemon;

TEST_CASE("the kernel's text of a block device says what was written") {
  CHECK(written_in_stat("  6114  93 447610 9122  31415 200 2048 77 0 1 2 3 4 5 6 7 8\n") == 2048 * 512);
  CHECK_FALSE(written_in_stat("6114 93 447610 9122 31415 200"));
  CHECK_FALSE(written_in_stat("1 2 3 4 5 6 x"));
  CHECK_FALSE(written_in_stat("1 2 3 4 5 6 18446744073709551615"));
  CHECK_FALSE(written_in_stat(""));
}

TEST_CASE("a drive is found by the device of the directory") {
  const tests::TemporaryDirectory directory;
  struct stat status {};
  REQUIRE(::stat(directory.path().c_str(), &status) == 0);
  const std::string device =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  directory.write("sys/dev/block/" + device + "/stat", "1 2 3 4 5 6 7 8\n");
  const auto counted = DriveCounter(directory.path(), directory.path()).written_bytes();
  if (major(status.st_dev) == 0)
    CHECK_FALSE(counted);
  else
    CHECK(counted == 7 * 512);
  CHECK_FALSE(DriveCounter("/proc", directory.path()).written_bytes());
  CHECK_FALSE(DriveCounter().written_bytes());
}
