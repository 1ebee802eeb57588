// The file of the record, and what may lie in its place.
#include "daemon/promises/record_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using terrace::tests::gib;

namespace {

const Promises one_job{{{1000, "train"}, {4 * gib, 3 * gib, gib}}};

struct RecordFixture {
  tests::TemporaryDirectory directory;
  std::string path = directory / "t.promises";
  KeptFile file_of_socket() const { return KeptFile(directory / "t", "promises", nullptr); }

  void write(const Promises& promises = one_job) const {
    RecordFile file;
    file.open(file_of_socket());
    file.keep(promises, 1);
  }
  Promises read() const { return RecordFile().open(file_of_socket()); }
};

}  // namespace

TEST_CASE_METHOD(RecordFixture, "what one daemon keeps the next one reads, and nobody else") {
  CHECK(read().empty());
  write();
  CHECK(read() == one_job);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK_FALSE(std::filesystem::exists(path + ".new"));
}

TEST_CASE_METHOD(RecordFixture, "a record that others can have written is none") {
  write();
  SECTION("open to others") { REQUIRE(::chmod(path.c_str(), 0640) == 0); }
  SECTION("with a second name") { std::filesystem::create_hard_link(path, path + ".too"); }
  SECTION("behind a symbolic link") {
    std::filesystem::rename(path, path + ".real");
    std::filesystem::create_symlink(path + ".real", path);
  }
  SECTION("another user's") {
    if (::geteuid() != 0) {
      WARN("SKIP: only root gives a file away");
      return;
    }
    REQUIRE(::chown(path.c_str(), 1000, 1000) == 0);
  }
  CHECK(read().empty());
}

TEST_CASE_METHOD(RecordFixture, "what is no file, or too long, is none, and holds up nobody") {
  SECTION("a pipe that nobody writes to") { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }
  SECTION("a directory") { std::filesystem::create_directory(path); }
  SECTION("a long file") {
    write();
    std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  }
  CHECK(read().empty());
}

TEST_CASE_METHOD(RecordFixture, "the record is written when it has changed, and not at once again") {
  RecordFile file;
  file.open(file_of_socket());
  file.keep({}, 1);
  file.keep(one_job, 2);
  CHECK(read().empty());
  CHECK_FALSE(file.is_due(2));
  file.keep(one_job, 1 + RecordFile::pause_ns);
  CHECK(read() == one_job);
  std::filesystem::remove(path);
  file.keep(one_job, 1 + 3 * RecordFile::pause_ns);  // nothing has changed
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE_METHOD(RecordFixture, "AFileThatSomebodyRemovedIsMadeAnewWithTheNextChange") {
  RecordFile file;
  file.open(file_of_socket());
  file.keep({}, 1);
  std::filesystem::remove(path);
  file.keep(one_job, 1 + RecordFile::pause_ns);
  CHECK(read() == one_job);
}

TEST_CASE_METHOD(RecordFixture, "ADaemonThatIsKilledWhileItWritesLeavesTheRecordBefore") {
  {
    RecordFile file;
    file.open(file_of_socket());
    std::uint64_t now_ns = 0;
    for (std::uint64_t granted : {1, 2, 3}) {
      Promises promises = one_job;
      promises.begin()->second.granted_bytes = granted;
      file.keep(promises, now_ns += RecordFile::pause_ns);
    }
  }
  CHECK(read().begin()->second.granted_bytes == 3);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(100)
      << "torn";  // where the third is
  CHECK(read().begin()->second.granted_bytes == 2);
}

TEST_CASE_METHOD(RecordFixture, "at the end the record is written at once, and goes when nobody is left") {
  RecordFile file;
  file.open(file_of_socket());
  file.keep({}, 1);
  file.finish(one_job);
  CHECK(read() == one_job);
  file.finish({});
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE_METHOD(RecordFixture, "AFailedWriteLeavesTheOldRecord") {
  write();
  std::filesystem::create_directory(path + ".new");  // a half written one cannot be made
  write({});
  CHECK(read() == one_job);
}

TEST_CASE_METHOD(RecordFixture, "what a killed daemon left half written is replaced") {
  std::ofstream(path + ".new") << "half";
  write();
  CHECK(read() == one_job);
}
