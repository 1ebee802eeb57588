// What one program leaves another of its user reads, and nobody else's file is believed.
#include "tiers/records/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/daemon/temporary_directory.h"

using namespace terrace;
using namespace terrace::records;

namespace {

struct PrivateFixture {
  tests::TemporaryDirectory directory;
  std::string path = directory / "record";

  PrivateFixture() { REQUIRE(replace_private_file(path, "content", Outlives::machine) == 0); }
  PrivateFile read() const { return read_private_file(path, 100); }
};

}  // namespace

TEST_CASE_METHOD(PrivateFixture, "a private file is this user's alone and is replaced as a whole") {
  CHECK(read().bytes == "content");
  CHECK(read().problem.empty());
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  std::ofstream(path + ".new") << "half, of a writer that was killed";
  CHECK(replace_private_file(path, "more", Outlives::programs) == 0);
  CHECK(read().bytes == "more");
  CHECK_FALSE(std::filesystem::exists(path + ".new"));
}

TEST_CASE_METHOD(PrivateFixture, "where there is no file the error says so") {
  std::filesystem::remove(path);
  CHECK(read().error == ENOENT);
}

TEST_CASE_METHOD(PrivateFixture, "what lies in its place is not believed and holds up nobody") {
  SECTION("open to others") { REQUIRE(::chmod(path.c_str(), 0644) == 0); }
  SECTION("with a second name") { std::filesystem::create_hard_link(path, path + ".too"); }
  SECTION("a symbolic link") {
    std::filesystem::rename(path, path + ".real");
    std::filesystem::create_symlink(path + ".real", path);
  }
  SECTION("a pipe that nobody writes to") {
    std::filesystem::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  SECTION("too long") { std::filesystem::resize_file(path, 101); }
  SECTION("another user's") {
    if (::geteuid() != 0) {
      WARN("SKIP: only root gives a file away");
      return;
    }
    REQUIRE(::chown(path.c_str(), 1000, 1000) == 0);
  }
  CHECK(read().error == EBADMSG);
  CHECK(read().bytes.empty());
  CHECK_FALSE(read().problem.empty());
}

TEST_CASE_METHOD(PrivateFixture, "AFailedReplacementLeavesTheOldFile") {
  std::filesystem::create_directory(path + ".new");
  CHECK(replace_private_file(path, "more", Outlives::programs) != 0);
  CHECK(read().bytes == "content");
}
