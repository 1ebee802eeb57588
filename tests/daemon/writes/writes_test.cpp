// The day's count over restarts, between daemons of one user, and where no record can be kept.
#include "daemon/writes/writes.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using namespace terrace::tests;

namespace {

constexpr std::uint32_t writer = 1000;

struct DaysFixture {
  TemporaryDirectory directory;
  std::uint64_t day = 20000;
  std::uint64_t now_ns = 1;

  std::unique_ptr<Writes> daemon(std::uint64_t limit = gib) {
    auto writes = std::make_unique<Writes>([this] { return day; });
    CHECK(writes->open(directory / "state", directory.path()).empty());
    writes->set_limit(limit, {});
    return writes;
  }
  std::uint64_t lease(Writes& writes, SessionId session = 1) {
    std::uint64_t most = 0;
    for (const WriteLease& lease : writes.round(now_ns += 100'000'000, [](const JobKey&) { return 1U; }))
      if (lease.session == session) most = lease.most_written_bytes;
    return most;
  }
  static void join(Writes& writes, SessionId session = 1) {
    writes.join(session, {writer, "train"});
    writes.observe(session, 0);
  }
};

}  // namespace

TEST_CASE_METHOD(DaysFixture, "the count outlives an orderly end without what was not written") {
  auto writes = daemon();
  join(*writes);
  REQUIRE(lease(*writes) == WriteShares::first_bytes);
  writes->observe(1, 30 * mib);
  writes->leave(1, writer);
  writes->finish();
  CHECK(daemon()->today_bytes() == 30 * mib);
  CHECK(daemon()->left_bytes() == gib - 30 * mib);
}

TEST_CASE_METHOD(DaysFixture, "after a kill the count is too high by the leases and never too low") {
  {
    auto writes = daemon();
    join(*writes);
    lease(*writes);
    writes->observe(1, 30 * mib);
  }
  CHECK(daemon()->today_bytes() == WriteShares::first_bytes);
}

TEST_CASE_METHOD(DaysFixture, "two daemons of a user have one day's bytes between them") {
  auto one_daemon = daemon(300 * mib), other_daemon = daemon(300 * mib);
  join(*one_daemon);
  join(*other_daemon);
  std::uint64_t of_one = 0, of_other = 0;
  for (int i = 0; i < 100; ++i) {
    if (const auto most = lease(*one_daemon)) of_one = most;
    if (const auto most = lease(*other_daemon)) of_other = most;
    one_daemon->observe(1, of_one);
    other_daemon->observe(1, of_other);
    REQUIRE(of_one + of_other <= 300 * mib);
  }
  CHECK(of_one + of_other + WriteShares::none_bytes >= 300 * mib);
}

TEST_CASE_METHOD(DaysFixture, "midnight lets a job write again and a clock that goes back does not") {
  auto writes = daemon(4 * mib);
  join(*writes);
  std::uint64_t most = lease(*writes);
  writes->observe(1, most);
  for (int i = 0; i < 20; ++i) {
    if (const auto more = lease(*writes)) most = more;
    writes->observe(1, most);
  }
  CHECK(most <= 4 * mib);
  --day;
  CHECK(lease(*writes) == 0);
  day += 2;
  CHECK(lease(*writes) > most);
}

TEST_CASE_METHOD(DaysFixture, "while another program has the record nothing is leased and nothing waits") {
  auto writes = daemon();
  join(*writes);
  const int fd = ::open((directory / "state").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  CHECK(lease(*writes) == 0);
  ::close(fd);
  CHECK(lease(*writes) == WriteShares::first_bytes);
}

TEST_CASE_METHOD(DaysFixture,
                 "a record that is lost or damaged while the daemon runs does not stop the count") {
  auto writes = daemon();
  join(*writes);
  REQUIRE(lease(*writes) == WriteShares::first_bytes);
  for (const auto& entry : std::filesystem::directory_iterator(directory / "state"))
    std::ofstream(entry.path()) << "damaged";
  writes->observe(1, WriteShares::first_bytes);
  CHECK(lease(*writes) > WriteShares::first_bytes);
  CHECK(writes->today_bytes() > WriteShares::first_bytes);
  Writes next([this] { return day; });
  CHECK(next.open(directory / "state", directory.path()).find("damaged") != std::string::npos);
  next.set_limit(gib, {});
  join(next);
  CHECK(lease(next) == WriteShares::first_bytes);  // counted in memory
}

TEST_CASE_METHOD(DaysFixture, "what the drive took beyond all reports is seen and charged to nobody") {
  struct stat status {};
  REQUIRE(::stat(directory.path().c_str(), &status) == 0);
  if ((status.st_dev >> 8 & 0xfff) == 0) {
    WARN("SKIP: the directory for temporary files is on no block device");
    return;
  }
  const auto drive_says = [&](std::uint64_t bytes) {
    const std::string device =
        std::to_string(status.st_dev >> 8 & 0xfff) + ":" + std::to_string(status.st_dev & 0xff);
    directory.write("sys/dev/block/" + device + "/stat",
                    "1 2 3 4 5 6 " + std::to_string(bytes / 512) + " 8\n");
  };
  auto writes = daemon();
  UserShares users;
  users.set_cap(gib / 2);
  writes->set_limit(gib, std::move(users));
  drive_says(10 * gib);
  writes->watch(DriveCounter(directory.path(), directory.path()));
  join(*writes);
  lease(*writes);
  CHECK(writes->unreported_bytes() == 0);
  drive_says(10 * gib + 100 * mib);
  writes->observe(1, 30 * mib);
  now_ns += Writes::look_ns;
  lease(*writes);
  CHECK(writes->unreported_bytes() == 70 * mib);
  drive_says(20 * gib);
  now_ns += Writes::look_ns;
  lease(*writes);
  CHECK(writes->left_bytes() <= gib / 2);
  CHECK(writes->left_bytes() > 0);
}
