// NVM that is divided among jobs: what each is promised, and that nobody is promised what is not there.
#include "daemon/pools/nvm_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>

#include "daemon/base/machine.h"
#include "daemon/base/unique_fd.h"
#include "tests/units.h"
#include "tiers/memory/nvm_file.h"

using namespace terrace;
using namespace terrace::daemon;

namespace {

using terrace::tests::mib;
const JobKey job_one{1000, "a"}, job_two{1000, "b"}, job_three{1001, "a"};

NvmRule rule(std::uint64_t bytes) { return {.bytes = bytes, .directory = "/var/tmp"}; }

struct Given {
  Given(NvmPool& pool, SessionId session, const JobKey& job)
      : grant(pool.give(session, job, 0, 0)), fd(grant.fd) {}
  PoolGrant grant;
  UniqueFd fd;
};

}  // namespace

TEST_CASE("jobs are promised half of the NVM that is left, and never more than there is") {
  NvmPool pool(rule(256 * mib));
  const Given one_given(pool, 1, job_one), two_given(pool, 2, job_two), three_given(pool, 3, job_three);
  REQUIRE(one_given.grant.error == 0);
  CHECK(one_given.grant.capacity_bytes == 128 * mib);
  CHECK(two_given.grant.capacity_bytes == 64 * mib);
  CHECK(three_given.grant.capacity_bytes == 64 * mib);  // half would be too little to be of use
  CHECK(pool.promised_bytes() == 256 * mib);
  CHECK(pool.give(4, {1002, "c"}, 0, 0).error == ENOSPC);
  CHECK(pool.capacity_bytes(4) == 0);
  pool.leave(1);
  CHECK(Given(pool, 5, {1002, "c"}).grant.capacity_bytes == 64 * mib);
}

TEST_CASE("processes of a job share its NVM, and each has a file of its own that has no name") {
  NvmPool pool(rule(256 * mib));
  const Given one_given(pool, 1, job_one);
  CHECK(pool.limit_bytes(1) == 128 * mib);
  const Given two_given(pool, 2, job_one);
  CHECK(pool.promised_bytes() == 128 * mib);
  CHECK(pool.limit_bytes(1) == 64 * mib);
  CHECK(pool.limit_bytes(2) == 64 * mib);
  struct stat one_file {
  }, other_file{};
  REQUIRE(::fstat(one_given.fd.get(), &one_file) == 0);
  REQUIRE(::fstat(two_given.fd.get(), &other_file) == 0);
  CHECK(one_file.st_ino != other_file.st_ino);
  CHECK(one_file.st_nlink == 0);
  REQUIRE(::ftruncate(one_given.fd.get(), 96 * mib) == 0);
  REQUIRE(::posix_fallocate(one_given.fd.get(), 0, 96 * mib) == 0);
  pool.observe(1, 32 * mib);  // it says less than it takes
  CHECK(pool.used_bytes() >= 96 * mib);
  CHECK(pool.reported_bytes() == 32 * mib);
  CHECK(pool.limit_bytes(2) <= 16 * mib);
}

TEST_CASE("what others have taken of the place is not promised") {
  const std::uint64_t free = free_disk_bytes("/var/tmp");
  NvmPool pool(rule(4 * free));
  const Given one_given(pool, 1, job_one);
  REQUIRE(one_given.grant.error == 0);
  CHECK(pool.promised_bytes() <= free);
  NvmRule nowhere{.bytes = 64 * mib};
  REQUIRE(nowhere.nodes.read("1023"));
  NvmPool none(nowhere);
  CHECK(none.free_bytes() == 0);
  CHECK(none.give(1, job_one, 0, 0).error == ENOSPC);
  NvmRule gone = rule(64 * mib);
  gone.directory = "/nonexistent/pmem";
  CHECK(NvmPool(gone).give(1, job_one, 0, 0).error != 0);
}

TEST_CASE("NVM on nodes is a file whose memory is theirs") {
  NvmRule on_nodes{.bytes = 64 * mib};
  REQUIRE(on_nodes.nodes.read("0"));
  NvmPool pool(on_nodes);
  const Given one_given(pool, 1, job_one);
  if (one_given.grant.error == EPERM || one_given.grant.error == ENOSYS) {
    puts("SKIP: this machine lets nobody say on which NUMA nodes memory lies");
    return;
  }
  REQUIRE(one_given.grant.error == 0);
  CHECK(tiers::nodes_of(one_given.fd.get()) == on_nodes.nodes);
}

TEST_CASE("what an earlier daemon gave a job is promised to nobody else") {
  NvmPool first(rule(256 * mib));
  const Given one_given(first, 1, job_one);
  REQUIRE(::posix_fallocate(one_given.fd.get(), 0, 16 * mib) == 0);
  auto file = look_at_pool_file(one_given.fd.get());
  REQUIRE(file);
  file->descriptor = std::make_shared<UniqueFd>(::fcntl(one_given.fd.get(), F_DUPFD_CLOEXEC, 0));
  NvmPool second(rule(256 * mib));
  const bool is_on_record = GENERATE(true, false);
  const NvmPool::Brought brought{192 * mib, 8 * mib, is_on_record};
  REQUIRE_FALSE(second.adopt(7, job_one, brought, *file));
  // Who is on record was given more than half by a daemon with more; else it is as a new one.
  CHECK(second.capacity_bytes(7) == (is_on_record ? 192 * mib : 128 * mib));
  CHECK(second.limit_bytes(7) == second.capacity_bytes(7));
  CHECK(second.used_bytes() >= 16 * mib);
  CHECK(second.reported_bytes() == 8 * mib);
  CHECK(second.holds(7, file->id));
  const Given two_given(second, 8, job_two);
  CHECK(two_given.grant.capacity_bytes == 64 * mib);
  CHECK(second.promised_bytes() <= 256 * mib);
  second.leave(7);
  CHECK(second.promised_bytes() == 64 * mib);
}

TEST_CASE("a file that is not of the NVM's place brings nothing, and one that cannot be is refused") {
  NvmPool pool(rule(256 * mib));
  UniqueFd elsewhere(::memfd_create("elsewhere", MFD_CLOEXEC));
  auto file = look_at_pool_file(elsewhere.get());
  REQUIRE(file);
  file->descriptor = std::make_shared<UniqueFd>(std::move(elsewhere));
  REQUIRE_FALSE(pool.adopt(1, job_one, {64 * mib, 0, true}, *file));
  CHECK(pool.promised_bytes() == 0);
  const Given given(pool, 2, job_two);
  auto ours = look_at_pool_file(given.fd.get());
  REQUIRE(ours);
  ours->descriptor = std::make_shared<UniqueFd>(::fcntl(given.fd.get(), F_DUPFD_CLOEXEC, 0));
  PoolFile named = *ours, read_only = *ours, stolen = *ours;
  named.names = 1;
  read_only.writable = false;
  stolen.owner = 4711;
  for (const PoolFile& bad : {named, read_only, stolen})
    CHECK(pool.adopt(3, job_one, {64 * mib, 0, true}, bad)->error == EBADMSG);
  CHECK(pool.capacity_bytes(3) == 0);
}
