// The drive's endurance budget: counted across jobs, never too low, obeyed, and refused when the file is
// damaged.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "liballoc/gpu/offload/endurance_ledger.h"
#include "tests/liballoc/gpu/offload/directory.h"
#include "tests/liballoc/gpu/offload/engine_fixture.h"
#include "tests/liballoc/support.h"

using namespace terrace::liballoc::offload;
using namespace terrace::liballoc::offload::test;

namespace {

std::uint64_t total_in(const Directory& directory) {
  EnduranceLedger ledger;
  std::string reason;
  REQUIRE(ledger.open(directory.path(), 0, 0, &reason) == 0);
  return ledger.total_bytes();
}

std::ptrdiff_t names_in(const Directory& directory) {
  const std::filesystem::directory_iterator names(directory.path());
  return std::distance(begin(names), end(names));
}

EnduranceCounts read_counts(const Directory& directory) {
  std::byte record[EnduranceRecord::bytes];
  std::ifstream(directory.file(), std::ios::binary).read(reinterpret_cast<char*>(record), sizeof(record));
  EnduranceCounts counts;
  REQUIRE(EnduranceRecord::decode(record, sizeof(record), &counts));
  return counts;
}

void write_counts(const Directory& directory, const EnduranceCounts& counts) {
  std::byte record[EnduranceRecord::bytes];
  EnduranceRecord::encode(counts, record);
  std::ofstream(directory.file(), std::ios::binary)
      .write(reinterpret_cast<const char*>(record), sizeof(record));
}

}  // namespace

TEST_CASE("WhatJobsWroteIsCountedAcrossThem") {
  const Directory directory;
  std::string reason;
  for (int job = 0; job < 3; ++job) {
    EnduranceLedger ledger;
    REQUIRE(ledger.open(directory.path(), 0, 0, &reason) == 0);
    CHECK(ledger.take(10 * mib) == 0);
    CHECK(ledger.take(5 * mib) == 0);
  }
  CHECK(total_in(directory) == 45 * mib);
}

TEST_CASE("AJobThatIsKilledNeverCountsTooLittle") {
  const Directory directory;
  const int result = terrace::liballoc::test::in_child([&] {
    EnduranceLedger ledger;
    std::string reason;
    if (ledger.open(directory.path(), 0, 0, &reason) != 0) return 1;
    if (ledger.take(300 * mib) != 0 || ledger.take(mib) != 0) return 2;
    ::kill(::getpid(), SIGKILL);
    return 3;
  });
  CHECK(result == 200 + SIGKILL);
  CHECK(total_in(directory) >= 301 * mib);
  CHECK(total_in(directory) <= 301 * mib + 2 * EnduranceLedger::step_bytes);
}

TEST_CASE("TwoJobsAtOnceAreBothCounted") {
  const Directory directory;
  std::string reason;
  {
    EnduranceLedger one, other;
    REQUIRE(one.open(directory.path(), 0, 0, &reason) == 0);
    REQUIRE(other.open(directory.path(), 0, 0, &reason) == 0);
    for (int i = 0; i < 10; ++i) {
      CHECK(one.take(60 * mib) == 0);
      CHECK(other.take(70 * mib) == 0);
    }
  }
  CHECK(total_in(directory) == 1300 * mib);
}

TEST_CASE("ABudgetIsReachedAndNotPassed") {
  const Directory directory;
  std::string reason;
  const bool daily = GENERATE(true, false);
  EnduranceLedger ledger;
  REQUIRE(ledger.open(directory.path(), daily ? 100 * mib : 0, daily ? 0 : 100 * mib, &reason) == 0);
  CHECK(ledger.take(60 * mib) == 0);
  CHECK(ledger.take(41 * mib) == EDQUOT);
  CHECK(ledger.take(40 * mib) == 0);
  CHECK(ledger.take(1) == EDQUOT);
}

TEST_CASE("ADamagedLedgerIsRefusedWithWhatToDo") {
  const Directory directory;
  std::string reason;
  CHECK(total_in(directory) == 0);
  const int damage = GENERATE(0, 1, 2, 3);
  CAPTURE(damage);
  {
    std::fstream file(directory.file(), std::ios::in | std::ios::out | std::ios::binary);
    if (damage == 0) file.seekp(24) << 'x';
    if (damage == 1) file.seekp(64) << "more";
  }
  if (damage == 2) std::filesystem::resize_file(directory.file(), 10);
  if (damage == 3) {
    std::filesystem::remove(directory.file());
    std::filesystem::create_directory(directory.file());
  }
  EnduranceLedger ledger;
  CHECK(ledger.open(directory.path(), 0, 0, &reason) == EBADMSG);
  CHECK(reason.find("Remove") != std::string::npos);
}

// In /var/tmp: everybody may make files there, and nobody may replace another user's.
TEST_CASE("UsersThatShareAStickyDirectoryCountTogether") {
  if (::geteuid() != 0) {
    WARN("SKIP: only root can be two users");
    return;
  }
  const Directory directory(std::filesystem::temp_directory_path());
  REQUIRE(::chmod(directory.path().c_str(), 01777) == 0);
  ::umask(022);
  const auto as_user = [&](uid_t user, std::uint64_t budget) {
    return terrace::liballoc::test::in_child([&] {
      if (::setgid(user) != 0 || ::setuid(user) != 0) return 1;
      EnduranceLedger ledger;
      std::string reason;
      if (ledger.open(directory.path(), 0, budget, &reason) != 0) return 2;
      return ledger.take(10 * mib) == 0 ? 0 : 3;
    });
  };
  CHECK(as_user(1001, 0) == 0);
  CHECK(as_user(1002, 0) == 0);
  CHECK(as_user(1001, 1024 * mib) == 0);
  CHECK(as_user(1002, 35 * mib) == 3);
  CHECK(total_in(directory) == 30 * mib);
  CHECK(names_in(directory) == 1);  // nothing is left that would be in another's way

  REQUIRE(::chmod(directory.file().c_str(), 0644) == 0);  // as it was made once
  CHECK(as_user(1002, 0) == 2);
  CHECK(names_in(directory) == 1);
  CHECK(as_user(1001, 0) == 0);  // it is his, and he shares it
  CHECK(as_user(1002, 0) == 0);
}

TEST_CASE("WhatIsNoFileOfItsOwnIsRefused") {
  const Directory directory;
  CHECK(total_in(directory) == 0);
  const std::string elsewhere = directory.path() + "/elsewhere";
  const bool symbolic = GENERATE(true, false);
  if (symbolic) {
    std::filesystem::rename(directory.file(), elsewhere);
    std::filesystem::create_symlink(elsewhere, directory.file());
  } else {
    std::filesystem::create_hard_link(directory.file(), elsewhere);
  }
  EnduranceLedger ledger;
  std::string reason;
  CHECK(ledger.open(directory.path(), 0, 0, &reason) == EBADMSG);
}

TEST_CASE("WhatWasChargedYesterdayIsNotGivenBackToday") {
  const Directory directory;
  std::string reason;
  EnduranceLedger ledger;
  REQUIRE(ledger.open(directory.path(), 0, 0, &reason) == 0);
  REQUIRE(ledger.take(10 * mib) == 0);
  EnduranceCounts counts = read_counts(directory);
  REQUIRE(counts.total_bytes == EnduranceLedger::step_bytes);
  write_counts(directory,
               {counts.day + 1, 50 * mib, counts.total_bytes + 50 * mib});  // others, after midnight
  ledger.close();
  counts = read_counts(directory);
  CHECK(counts.today_bytes == 50 * mib);
  CHECK(counts.total_bytes == 60 * mib);
}

TEST_CASE("AClockThatWasAheadDoesNotEndTheDays") {
  const Directory directory;
  std::string reason;
  const auto today = static_cast<std::uint64_t>(::time(nullptr)) / 86400;
  const std::uint64_t ahead = GENERATE(1, 400);
  write_counts(directory, {today + ahead, 50 * mib, 70 * mib});
  EnduranceLedger ledger;
  REQUIRE(ledger.open(directory.path(), 60 * mib, 0, &reason) == 0);
  CHECK(ledger.take(20 * mib) == EDQUOT);  // what was counted is today's
  CHECK(ledger.take(5 * mib) == 0);
  CHECK(read_counts(directory).day == (ahead == 1 ? today + 1 : today));
}

TEST_CASE("EveryChangedByteOfARecordIsNoticed") {
  std::byte record[EnduranceRecord::bytes];
  EnduranceRecord::encode({20000, 5, 9}, record);
  EnduranceCounts counts;
  REQUIRE(EnduranceRecord::decode(record, sizeof(record), &counts));
  CHECK(counts.total_bytes == 9);
  for (std::byte& byte : record) {
    byte ^= std::byte{4};
    CHECK_FALSE(EnduranceRecord::decode(record, sizeof(record), &counts));
    byte ^= std::byte{4};
  }
  EnduranceRecord::encode({20000, 10, 9}, record);  // today more than ever
  CHECK_FALSE(EnduranceRecord::decode(record, sizeof(record), &counts));
}

TEST_CASE("ASpentBudgetKeepsTensorsInHostMemory") {
  const Directory directory;
  const Opened engine({.dram_bytes = 16 * mib,
                       .nvme_bytes = 256 * mib,
                       .nvme_directory = directory.path().c_str(),
                       .writes_total_bytes = 8 * mib});
  std::vector<std::uint64_t> ids;
  const auto source = content(mib, 1);
  int refused = 0;
  for (int i = 0; i < 40 && refused == 0; ++i) {
    std::uint64_t id = 0;
    refused = engine.try_store(source, &id);
    if (refused == 0) {
      refused = engine.left(id);
      refused = refused == 1 ? 0 : refused;
    }
    if (refused == 0) ids.push_back(id);
  }
  CHECK(refused == -EDQUOT);
  CHECK(ids.size() >= 16);
  CHECK(engine.statistics().nvme_written_bytes <= 8 * mib);
  const auto now = engine.statistics();  // what is being written is counted before it is
  CHECK(now.writes_total_bytes >= now.nvme_written_bytes);
  CHECK(now.writes_total_bytes <= 8 * mib);
  for (const std::uint64_t id : ids) {
    std::vector<std::byte> back(mib);
    CHECK(engine.fetch(id, back) == 0);
    CHECK((back == source));
    engine.release(id);
  }
}

// Of what is released while the drive has its first piece, and of what is behind it.
TEST_CASE("WhatWasReleasedBeforeItWasWrittenIsNotCounted") {
  const Directory directory;
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"),
                       .dram_bytes = 16 * mib,
                       .nvme_bytes = 256 * mib,
                       .nvme_directory = directory.path().c_str(),
                       .fault = "slow:500ms"});
  const auto source = content(40 * mib, 1);
  const std::uint64_t begun = engine.store(source);
  engine.release(engine.store(source));
  while (engine.statistics().nvme_written_bytes == 0) pause_ms(1);
  engine.release(begun);
  while (engine.statistics().nvme_bytes != 0) pause_ms(1);
  const auto now = engine.statistics();
  CHECK(now.nvme_written_bytes < 40 * mib);
  CHECK(now.writes_total_bytes == now.nvme_written_bytes);
}

TEST_CASE("OfAPieceThatFailedTheRestIsNotCounted") {
  const Directory directory;
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"),
                       .dram_bytes = 16 * mib,
                       .nvme_bytes = 256 * mib,
                       .nvme_directory = directory.path().c_str(),
                       .fault = "write:7:EIO"});
  const auto source = content(40 * mib, 1);
  CHECK(engine.left(engine.store(source)) == -EIO);
  CHECK(engine.statistics().nvme_written_bytes == 6 * mib);
  CHECK(engine.statistics().writes_total_bytes == 7 * mib);
}

// The drive is given 32 MiB before the first of it fails.
TEST_CASE("OfAWriteThatFailedTheRestIsNotCounted") {
  const Directory directory;
  const Opened engine({.dram_bytes = 128 * mib,
                       .nvme_bytes = 256 * mib,
                       .nvme_directory = directory.path().c_str(),
                       .fault = "write:1:EIO"});
  const auto source = content(48 * mib, 1);
  for (int i = 0; i < 2; ++i) REQUIRE(engine.left(engine.store(source)) == 1);
  CHECK(engine.left(engine.store(source)) == -EIO);
  CHECK(engine.statistics().writes_total_bytes > 0);
  CHECK(engine.statistics().writes_total_bytes <= 32 * mib);
}

TEST_CASE("WritesThatAreNotCountedAreSaid") {
  const Directory directory;
  {
    const Opened counted({.nvme_bytes = 64 * mib, .nvme_directory = directory.path().c_str()});
    CHECK(std::string(terrace_offload_warning(counted.get())).empty());
  }
  // Whoever locks the directory keeps others from counting; 2 s are waited for him.
  const int fd = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  const Opened engine({.nvme_bytes = 64 * mib, .nvme_directory = directory.path().c_str()});
  const std::string warning = terrace_offload_warning(engine.get());
  CHECK(warning.find("not counted") != std::string::npos);
  CHECK(warning.find(directory.file()) != std::string::npos);
  CHECK(engine.statistics().writes_total_bytes == 0);
  const terrace_offload_config config = config_of(
      {.nvme_bytes = 64 * mib, .nvme_directory = directory.path().c_str(), .writes_total_bytes = mib});
  terrace_offload* obeying = nullptr;
  char reason[512] = "";
  CHECK(terrace_offload_open(&config, &obeying, reason, sizeof(reason)) == -EAGAIN);
  ::close(fd);
}
