// One record of a drive for all programs of a user: each adds to what is there, and none waits for ever.
#include "tiers/records/endurance_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/daemon/temporary_directory.h"

using namespace terrace;
using namespace terrace::records;

namespace {

struct EnduranceFixture {
  tests::TemporaryDirectory directory;
  std::string state = directory / "state";
  std::string reason;

  int open(EnduranceFile* file) {
    return file->open(state, directory.path(), 20000, Outlives::programs, &reason);
  }
  static int charge(EnduranceFile* file, std::uint64_t day, std::uint64_t bytes) {
    return file->update(day, 0, [bytes](Endurance* written) {
      written->charge(7, bytes);
      return 0;
    });
  }
  std::uint64_t today(std::uint64_t day) {
    EnduranceFile file;
    std::uint64_t bytes = 0;
    REQUIRE(open(&file) == 0);
    REQUIRE(file.update(day, 0, [&](Endurance* written) {
      bytes = written->today_bytes();
      return ECANCELED;  // nothing is changed
    }) == ECANCELED);
    return bytes;
  }
};

}  // namespace

TEST_CASE_METHOD(EnduranceFixture, "what several programs charge adds up") {
  const std::uint64_t day = 20000;
  EnduranceFile one, other;
  REQUIRE(open(&one) == 0);
  REQUIRE(open(&other) == 0);
  for (int i = 0; i < 10; ++i) {
    CHECK(charge(&one, day, 3) == 0);
    CHECK(charge(&other, day, 4) == 0);
  }
  CHECK(today(day) == 70);
  CHECK(charge(&one, day + 1, 5) == 0);
  CHECK(today(day + 1) == 5);
}

TEST_CASE_METHOD(EnduranceFixture, "a change that fails changes nothing") {
  EnduranceFile file;
  REQUIRE(open(&file) == 0);
  CHECK(charge(&file, 20000, 3) == 0);
  const auto fails = [](Endurance* written) {
    written->charge(7, 100);
    return EDQUOT;
  };
  CHECK(file.update(20000, 0, fails) == EDQUOT);
  CHECK(today(20000) == 3);
}

TEST_CASE_METHOD(EnduranceFixture, "a program that does not let go of the record is not waited for") {
  EnduranceFile file;
  REQUIRE(open(&file) == 0);
  const int fd = ::open(state.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  CHECK(charge(&file, 20000, 3) == EAGAIN);
  ::close(fd);
  CHECK(charge(&file, 20000, 3) == 0);
}

TEST_CASE_METHOD(EnduranceFixture,
                 "an empty record says nothing and a damaged one is refused with the remedy") {
  EnduranceFile file;
  REQUIRE(open(&file) == 0);
  CHECK(charge(&file, 20000, 3) == 0);
  std::filesystem::resize_file(file.path(), 0);
  EnduranceFile next;
  REQUIRE(open(&next) == 0);
  CHECK(charge(&next, 20000, 4) == 0);
  CHECK(today(20000) == 4);
  std::ofstream(file.path(), std::ios::app) << "x";
  EnduranceFile last;
  CHECK(open(&last) == EBADMSG);
  CHECK(reason.find("Remove it") != std::string::npos);
  CHECK_FALSE(last.is_open());
  CHECK(charge(&next, 20000, 4) == EBADMSG);
}

TEST_CASE_METHOD(EnduranceFixture, "what cannot be kept is said with the remedy") {
  directory.write("state", "");
  EnduranceFile file;
  CHECK(open(&file) == ENOTDIR);
  CHECK(reason.find("XDG_STATE_HOME") != std::string::npos);
}
