// Where records are kept, and how a drive is called there.
#include "tiers/records/state_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "tests/daemon/temporary_directory.h"

using namespace terrace;
using namespace terrace::records;

TEST_CASE("the state directory is the service's or the user's") {
  for (const char* name : {"STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"}) ::unsetenv(name);
  CHECK(state_directory().empty());
  ::setenv("HOME", "/home/ada", 1);
  CHECK(state_directory() == "/home/ada/.local/state/terrace");
  ::setenv("XDG_STATE_HOME", "relative", 1);  // the specification: to be ignored
  CHECK(state_directory() == "/home/ada/.local/state/terrace");
  ::setenv("XDG_STATE_HOME", "/state", 1);
  CHECK(state_directory() == "/state/terrace");
  ::setenv("STATE_DIRECTORY", "/var/lib/terrace:/var/lib/more", 1);
  CHECK(state_directory() == "/var/lib/terrace");
  for (const char* name : {"STATE_DIRECTORY", "XDG_STATE_HOME"}) ::unsetenv(name);
}

TEST_CASE("a state directory is made for this user alone and one that others may write to is refused") {
  const tests::TemporaryDirectory directory;
  const std::string state = directory / "a/b/terrace";
  REQUIRE(make_state_directory(state) == 0);
  CHECK((std::filesystem::status(state).permissions() & std::filesystem::perms::all) ==
        std::filesystem::perms::owner_all);
  CHECK(make_state_directory(state) == 0);
  REQUIRE(::chmod(state.c_str(), 0777) == 0);
  CHECK(make_state_directory(state) == EPERM);
  directory.write("file", "");
  CHECK(make_state_directory(directory / "file") == ENOTDIR);
  CHECK(make_state_directory("relative") == ENOENT);
  CHECK(make_state_directory("") == ENOENT);
}

TEST_CASE("a drive is known by where its file system is mounted") {
  CHECK(drive_name("/") == "writes%2F");
  CHECK(drive_name("/proc/self") == "writes%2Fproc");
  CHECK(drive_name("/nonexistent").empty());
  const tests::TemporaryDirectory directory;
  CHECK(drive_name(directory.path()) == drive_name(directory / "."));
}
