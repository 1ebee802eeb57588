#include "daemon/pools/pools.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/base/unique_fd.h"
#include "liballoc/wire/protocol.h"
#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using Catch::Matchers::Contains;
using terrace::tests::TemporaryDirectory;

namespace {

using terrace::tests::gib;
const JobKey job_one{1000, "a"}, job_two{1000, "b"};
const FileId file_one{1, 1}, file_two{1, 2};

}  // namespace

TEST_CASE("a pool of a size is promised in full or refused with what is left") {
  Pools pools("/var/tmp", 10 * gib, false);
  REQUIRE_FALSE(pools.promise(1, job_one, 8 * gib));
  CHECK(pools.capacity_bytes(1) == 8 * gib);
  const auto refusal = pools.promise(2, job_two, 4 * gib);
  REQUIRE(refusal);
  CHECK(refusal->error == ENOSPC);
  CHECK(refusal->available_bytes == 2 * gib);
  CHECK_THAT(refusal->reason, Contains("/var/tmp"));
}

TEST_CASE("whatever there is: half of the rest on a shared machine, all of it in private") {
  Pools shared("/var/tmp", 10 * gib, false);
  shared.promise(1, job_one, wire::any_bytes);
  CHECK(shared.capacity_bytes(1) == 5 * gib);
  Pools own("/var/tmp", 10 * gib, true);
  own.promise(1, job_one, wire::any_bytes);
  CHECK(own.capacity_bytes(1) == 10 * gib);
  REQUIRE(own.promise(2, job_two, wire::any_bytes));
}

TEST_CASE("processes of one job share one promise, and one of them may use it all") {
  Pools pools("/var/tmp", 10 * gib, false);
  pools.promise(1, job_one, 8 * gib);
  CHECK(pools.limit_bytes(1) == 8 * gib);
  REQUIRE_FALSE(pools.promise(2, job_one, 8 * gib));
  CHECK(pools.promised_bytes() == 8 * gib);
  pools.observe(1, 6 * gib);
  CHECK(pools.limit_bytes(1) == 7 * gib);
  CHECK(pools.limit_bytes(2) == gib);
  pools.leave(2);
  CHECK(pools.limit_bytes(1) == 8 * gib);
}

TEST_CASE("a limit that moved is told where it matters to who has it") {
  using terrace::tests::mib;
  Pools pools("/var/tmp", 10 * gib, false);
  for (SessionId session = 1; session <= 4; ++session) pools.promise(session, job_one, gib);
  const std::uint64_t told = pools.limit_bytes(1);
  CHECK(told == 256 * mib);
  CHECK_FALSE(pools.is_limit_due(1, told));
  pools.observe(2, 32 * mib);
  CHECK(pools.limit_bytes(1) == told - 8 * mib);
  CHECK_FALSE(pools.is_limit_due(1, told));  // plenty is left
  pools.observe(2, 96 * mib);
  CHECK(pools.is_limit_due(1, told));  // a large swing
  pools.observe(2, 0);
  pools.observe(1, 240 * mib);
  CHECK(pools.limit_bytes(1) == 436 * mib);
  CHECK(pools.is_limit_due(1, told));
  CHECK_FALSE(pools.is_limit_due(9, told));
}

TEST_CASE("who has used up what it was told hears of every raise that lets something more in") {
  using terrace::tests::mib;
  Pools pools("/var/tmp", 10 * gib, false);
  pools.promise(1, job_one, gib);
  pools.promise(2, job_one, gib);
  pools.observe(2, 996 * mib);
  CHECK(pools.limit_bytes(1) == 14 * mib);
  CHECK(pools.is_limit_due(1, 0));
  CHECK_FALSE(pools.is_limit_due(1, 12 * mib));  // it has not come near that
  pools.observe(1, 12 * mib);
  const std::uint64_t limit = pools.limit_bytes(1);
  CHECK(limit == 20 * mib);
  CHECK(pools.is_limit_due(1, 12 * mib));
  CHECK(pools.is_limit_due(1, limit - Pools::least_bytes));
  CHECK_FALSE(pools.is_limit_due(1, limit - Pools::least_bytes + 1));  // no run fits into that
}

TEST_CASE("the promise ends with the job's last process") {
  Pools pools("/var/tmp", 10 * gib, false);
  pools.promise(1, job_one, 8 * gib);
  pools.promise(2, job_one, 8 * gib);
  pools.leave(1);
  CHECK(pools.promised_bytes() == 8 * gib);
  pools.leave(2);
  CHECK(pools.promised_bytes() == 0);
  CHECK(pools.used_bytes() == 0);
}

TEST_CASE("a pool that a job brings along counts, but a mere claim no more than the quota") {
  Pools pools("/var/tmp", 10 * gib, false);
  pools.adopt(1, job_one, ~std::uint64_t{0}, ~std::uint64_t{0}, {});
  CHECK(pools.promised_bytes() == 10 * gib);
  CHECK(pools.used_bytes() == 10 * gib);
}

TEST_CASE("a pool that a job brings along keeps its size when the quota has shrunk by what it holds") {
  Pools pools("/var/tmp", {4 * gib, true}, false);  // of free disk, after the job took 8 GiB of it
  CHECK(pools.adopt(1, job_one, 10 * gib, 8 * gib, {file_one, 8 * gib}));
  CHECK(pools.limit_bytes(1) == 10 * gib);
  pools.adopt(2, job_one, 10 * gib, gib, {file_two, gib});
  CHECK(pools.limit_bytes(1) >= 8 * gib);
  CHECK(pools.limit_bytes(2) >= gib);
  CHECK(pools.promised_bytes() == 10 * gib);
  Pools none("/var/tmp", {0, true}, false);
  none.adopt(1, job_one, 10 * gib, 8 * gib, {file_one, 8 * gib});
  CHECK(none.limit_bytes(1) == 8 * gib);
}

TEST_CASE("a file that many sessions bring counts once, with what it took up when it first came") {
  Pools pools("/var/tmp", {4 * gib, true}, false);
  for (SessionId id = 1; id <= 3; ++id) pools.adopt(id, job_one, 40 * gib, 8 * gib, {file_one, 8 * gib});
  CHECK(pools.promised_bytes() == 12 * gib);
  for (SessionId id = 1; id <= 3; ++id) pools.leave(id);
  CHECK_FALSE(pools.adopt(4, job_two, 20 * gib, 10 * gib, {file_one, 10 * gib}));
  CHECK(pools.promised_bytes() == 12 * gib);
  CHECK(pools.promise(5, job_one, gib)->available_bytes == 0);
}

TEST_CASE("a file that was made here since the quota was worked out adds nothing to it") {
  const tests::TemporaryDirectory directory;
  Pools pools(directory.path(), {10 * gib, true}, false);
  REQUIRE_FALSE(pools.promise(1, job_one, 9 * gib));
  const UniqueFd fd(pools.open_file(1, ::geteuid(), ::getegid()).fd);
  pools.leave(1);
  PoolFile file = *look_at_pool_file(fd.get());
  file.allocated_bytes = 9 * gib;
  PoolDisk disk;
  REQUIRE_FALSE(pools.judge(file, ::geteuid(), &disk));
  CHECK(disk.bytes == 9 * gib);
  CHECK(pools.adopt(2, job_one, 9 * gib, 9 * gib, disk));
  CHECK(pools.promise(3, job_two, 9 * gib)->available_bytes == gib);
  // A new quota is of the disk that is free beside it.
  pools.set_quota({gib, true});
  pools.leave(2);
  CHECK(pools.adopt(4, job_one, 9 * gib, 9 * gib, disk));
  CHECK(pools.promise(5, job_two, 9 * gib)->available_bytes == gib);
}

TEST_CASE("a pool that a job brings along takes nothing of a quota that others have") {
  Pools pools("/var/tmp", 4 * gib, false);
  pools.promise(1, job_one, 3 * gib);
  CHECK_FALSE(pools.adopt(2, job_two, 10 * gib, 8 * gib,
                          {file_one, 8 * gib}));  // it takes up disk, but the quota is fixed
  CHECK(pools.capacity_bytes(2) == gib);
  CHECK(pools.promised_bytes() == 4 * gib);
  CHECK(pools.promise(3, {1000, "c"}, gib)->available_bytes == 0);
  CHECK(pools.adopt(4, job_one, 3 * gib, gib, {file_two, gib}));
}

TEST_CASE("only a file like those made here is taken for a pool") {
  const tests::TemporaryDirectory directory;
  const Pools pools(directory.path(), gib, false);
  const std::uint32_t me = ::geteuid();
  PoolDisk disk;
  const UniqueFd pool(open_unlinked(directory.path()));
  REQUIRE(::fallocate(pool.get(), 0, 0, 1 << 20) == 0);
  CHECK_FALSE(pools.judge(*look_at_pool_file(pool.get()), me, &disk));
  CHECK(disk.bytes >= 1 << 20);
  PoolFile others = *look_at_pool_file(pool.get());
  others.owner = me + 1;
  CHECK(pools.judge(others, me, &disk)->error == EBADMSG);
  CHECK_FALSE(pools.judge(others, me + 1, &disk));
  directory.write("named", "");
  const UniqueFd named(::open((directory / "named").c_str(), O_RDWR | O_CLOEXEC));
  CHECK(pools.judge(*look_at_pool_file(named.get()), me, &disk)->error == EBADMSG);
  ::unlink((directory / "named").c_str());
  CHECK_FALSE(pools.judge(*look_at_pool_file(named.get()), me, &disk));
  const UniqueFd elsewhere(::memfd_create("elsewhere", MFD_CLOEXEC));
  REQUIRE(::ftruncate(elsewhere.get(), 1 << 20) == 0);
  CHECK_FALSE(pools.judge(*look_at_pool_file(elsewhere.get()), me, &disk));
  CHECK(disk.bytes == 0);
  PoolFile readable = *look_at_pool_file(pool.get());
  readable.writable = false;
  CHECK(pools.judge(readable, me, &disk)->error == EBADMSG);
}

TEST_CASE("a pool that no run fits into is refused with the reason") {
  Pools crumbs("/var/tmp", 1 << 20, true);
  const auto refusal = crumbs.promise(1, job_one, wire::any_bytes);
  REQUIRE(refusal);
  CHECK(refusal->error == ENOSPC);
  CHECK_THAT(refusal->reason, Contains("/var/tmp"));
  CHECK(crumbs.capacity_bytes(1) == 0);
  CHECK(crumbs.promised_bytes() == 0);
  Pools pools("/var/tmp", gib, true);
  REQUIRE(pools.promise(1, job_one, (2 << 20) - 1));
  CHECK_THAT(pools.promise(1, job_one, 1)->reason, Contains("at least"));
  CHECK_FALSE(pools.promise(1, job_one, 2 << 20));
}

TEST_CASE("a process whose job has used up its pool gets none, rather than one with nothing in it") {
  Pools pools("/var/tmp", gib, true);
  REQUIRE_FALSE(pools.promise(1, job_one, wire::any_bytes));
  pools.observe(1, gib - (1 << 20));
  const auto refusal = pools.promise(2, job_one, wire::any_bytes);
  REQUIRE(refusal);
  CHECK_THAT(refusal->reason, Contains("other processes"));
  CHECK(pools.capacity_bytes(2) == 0);
  CHECK(pools.limit_bytes(1) == gib);  // nothing was shared out to the job_two
  pools.observe(1, gib / 2);
  CHECK_FALSE(pools.promise(2, job_one, wire::any_bytes));
  CHECK(pools.limit_bytes(2) == gib / 4);
}

TEST_CASE("no process is told less than what it holds") {
  Pools pools("/var/tmp", gib, false);
  for (SessionId id = 1; id <= 3; ++id) REQUIRE_FALSE(pools.promise(id, job_one, gib));
  pools.observe(1, gib / 2);
  pools.observe(2, gib / 2);
  pools.observe(3, gib / 2);  // more than was promised, in all
  for (SessionId id = 1; id <= 3; ++id) CHECK(pools.limit_bytes(id) == gib / 2);
}

TEST_CASE("a process cannot claim to use more than its job was promised") {
  Pools pools("/var/tmp", 10 * gib, false);
  pools.promise(1, job_one, gib);
  pools.observe(1, ~std::uint64_t{0});
  CHECK(pools.limit_bytes(1) == gib);
}

TEST_CASE("a pool file has no name, belongs to the job's user, and closes on exec") {
  const tests::TemporaryDirectory directory;
  Pools pools(directory.path(), gib, false);
  pools.promise(1, job_one, gib);
  const PoolGrant grant = pools.open_file(1, 1234, 1234);
  REQUIRE(grant.error == 0);
  const UniqueFd fd(grant.fd);
  struct stat status {};
  REQUIRE(::fstat(fd.get(), &status) == 0);
  CHECK(status.st_nlink == 0);
  CHECK(status.st_uid == (::geteuid() == 0 ? 1234U : ::geteuid()));
  CHECK(std::filesystem::is_empty(directory.path()));
  CHECK(grant.capacity_bytes == gib);
}

TEST_CASE("nobody gives a pool file a name") {
  const TemporaryDirectory directory;
  const UniqueFd pool(open_unlinked(directory.path()));
  REQUIRE(pool.get() >= 0);
  const std::string self = "/proc/self/fd/" + std::to_string(pool.get());
  CHECK(::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, (directory / "kept").c_str(), AT_SYMLINK_FOLLOW) != 0);
  CHECK(errno == ENOENT);
}

TEST_CASE("a directory that cannot hold a pool says why") {
  CHECK(open_unlinked("/nonexistent") == -ENOENT);
  CHECK(open_unlinked("/proc") < 0);
}
