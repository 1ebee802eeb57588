// Pools whose files are to be encrypted hand out no other ones.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/pools/pools.h"
#include "tests/tiers/encryption/loop_file_system.h"
#include "tests/units.h"
#include "tiers/encryption/at_rest.h"

using namespace terrace::daemon;
using namespace terrace::tests;

using Catch::Matchers::Contains;

namespace {

const JobKey trainer{1000, "train"};

std::string only_entry_in(const std::string& path) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().filename() != "lost+found") found = entry.path();
  }
  return found;
}

}  // namespace

TEST_CASE("PoolFilesAreEncryptedAndTheirDirectoryGoesWithThePools") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  const std::string secret = "a tensor of one user on a shared machine ";
  UniqueFd fd;
  {
    Pools pools(file_system.path(), 32 * mib, false);
    REQUIRE(pools.encrypt().empty());
    CHECK(pools.encrypts());
    REQUIRE_FALSE(pools.promise(1, trainer, 16 * mib));
    const PoolGrant grant = pools.open_file(1, 1000, 1000);
    REQUIRE(grant.error == 0);
    fd.reset(grant.fd);
    // By O_DIRECT, if need be past what that falls back to: a page at a time.
    alignas(4096) static char page[4096];
    for (std::size_t i = 0; i < sizeof page; ++i) page[i] = secret[i % secret.size()];
    for (off_t at = 0; at < 16; ++at)
      REQUIRE(::pwrite(fd.get(), page, sizeof page, at * 4096) == sizeof page);
    REQUIRE(::fsync(fd.get()) == 0);
    CHECK_FALSE(file_system.drive_has(secret));
    CHECK_FALSE(only_entry_in(file_system.path()).empty());
  }
  CHECK(only_entry_in(file_system.path()).empty());
  // The job goes on with its file.
  alignas(4096) static char back[4096];
  REQUIRE(::pread(fd.get(), back, sizeof back, 4096) == sizeof back);
  CHECK(std::string(back, secret.size()) == secret);
}

TEST_CASE("PoolsInADirectoryThatIsEncryptedAlreadyUseItAsItIs") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  std::string problem;
  const auto whole = terrace::encryption::EncryptedDirectory::make(file_system.path(), &problem);
  REQUIRE(whole);
  Pools pools(whole->path(), 32 * mib, false);
  REQUIRE(pools.encrypt().empty());
  REQUIRE_FALSE(pools.promise(1, trainer, 16 * mib));
  const UniqueFd fd(pools.open_file(1, 0, 0).fd);
  CHECK(whole->encrypts(fd.get()));
}

TEST_CASE("FileThatWouldNotBeEncryptedIsNotHandedOut") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  Pools pools(file_system.path(), 32 * mib, false);
  REQUIRE(pools.encrypt().empty());
  REQUIRE_FALSE(pools.promise(1, trainer, 16 * mib));
  const std::string made = only_entry_in(file_system.path());
  REQUIRE(::rmdir(made.c_str()) == 0);
  CHECK(pools.open_file(1, 0, 0).error == ENOENT);
  REQUIRE(std::filesystem::create_directory(made));  // another one in its place, in plain text
  CHECK(pools.open_file(1, 0, 0).error == ENOKEY);
}

TEST_CASE("PoolsThatCannotBeEncryptedSayWhyAndHandOutNothing") {
  Pools pools("/dev/shm", 32 * mib, false);
  CHECK_THAT(pools.encrypt(), Contains("/dev/shm") && Contains("dm-crypt"));
  REQUIRE_FALSE(pools.promise(1, trainer, 16 * mib));
  CHECK(pools.open_file(1, 0, 0).error == ENOKEY);
}
