// The drive's endurance budget: counted across jobs, never too low, obeyed, and refused when the file is
// damaged.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "liballoc/gpu/offload/drive/endurance_ledger.h"
#include "tests/liballoc/gpu/offload/directory.h"
#include "tests/liballoc/gpu/offload/engine_fixture.h"
#include "tests/liballoc/support.h"
#include "tiers/records/state_directory.h"

using namespace terrace;
using namespace terrace::liballoc::offload;
using namespace terrace::liballoc::offload::test;

namespace {

std::uint64_t total_in(const Directory& directory) {
  EnduranceLedger ledger;
  std::string reason;
  REQUIRE(ledger.open(directory.path(), 0, 0, &reason) == 0);
  return ledger.total_bytes();
}

records::Endurance read_record(const Directory& directory) {
  std::ostringstream bytes;
  bytes << std::ifstream(directory.file(), std::ios::binary).rdbuf();
  const auto record = records::decode_endurance(bytes.str());
  REQUIRE(record);
  return *record;
}

void write_record(const Directory& directory, const records::Endurance& written) {
  REQUIRE(records::make_state_directory(directory.state()) == 0);
  REQUIRE(records::replace_private_file(directory.file(), records::encode_endurance(written),
                                        records::Outlives::programs) == 0);
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

// In /var/tmp everybody may leave what he likes beside the pool.
TEST_CASE("WhatOthersLeaveInThePoolsDirectoryKeepsNobodyFromCounting") {
  const Directory directory;
  const std::string bait = directory.path() + "/.terrace-endurance";
  if (GENERATE(true, false))
    std::filesystem::create_symlink("/etc/passwd", bait);
  else
    std::ofstream(bait) << "";
  EnduranceLedger ledger;
  std::string reason;
  REQUIRE(ledger.open(directory.path(), 0, 100 * mib, &reason) == 0);
  CHECK(ledger.take(60 * mib) == 0);
  ledger.close();
  CHECK(total_in(directory) == 60 * mib);
}

TEST_CASE("TheRecordIsItsUsersAlone") {
  const Directory directory;
  CHECK(total_in(directory) == 0);
  CHECK((std::filesystem::status(directory.file()).permissions() & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  REQUIRE(::chmod(directory.file().c_str(), 0666) == 0);
  EnduranceLedger ledger;
  std::string reason;
  CHECK(ledger.open(directory.path(), 0, 0, &reason) == EBADMSG);
  REQUIRE(::chmod(directory.file().c_str(), 0600) == 0);
  REQUIRE(::chmod(directory.state().c_str(), 0777) == 0);
  CHECK(ledger.open(directory.path(), 0, 0, &reason) == EPERM);
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
  records::Endurance written = read_record(directory);
  REQUIRE(written.total_bytes == EnduranceLedger::step_bytes);
  ++written.day;  // others, after midnight
  written.today.clear();
  written.charge(::geteuid(), 50 * mib);
  write_record(directory, written);
  ledger.close();
  written = read_record(directory);
  CHECK(written.today_bytes() == 50 * mib);
  CHECK(written.total_bytes == 60 * mib);
}

TEST_CASE("AClockThatWasAheadDoesNotEndTheDays") {
  const Directory directory;
  std::string reason;
  const std::uint64_t today = records::day_of_clock();
  const std::uint64_t ahead = GENERATE(1, 400);
  write_record(directory, {today + ahead, 70 * mib, {{::geteuid(), 50 * mib}}});
  EnduranceLedger ledger;
  REQUIRE(ledger.open(directory.path(), 60 * mib, 0, &reason) == 0);
  CHECK(ledger.take(20 * mib) == EDQUOT);  // what was counted is today's
  CHECK(ledger.take(5 * mib) == 0);
  CHECK(read_record(directory).day == (ahead == 1 ? today + 1 : today));
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
  // Another job that was stopped in the middle keeps others from counting; 2 s are waited for it.
  const int fd = ::open(directory.state().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
