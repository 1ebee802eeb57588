// Settings that read well and cannot work here.
#include "daemon/settings/settings_check.h"

#include <catch2/catch.hpp>

#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace::daemon;
using namespace terrace::tests;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

struct Settings {
  TemporaryDirectory directory;
  Config config;
  Settings() {
    config.dram = {Amount::Unit::bytes, 64 * mib};
    config.pool_directory = directory.path();
    config.pool_bytes = 64 * mib;
  }
  std::string error(bool is_private = false) const { return check_settings(config, is_private); }
};

}  // namespace

TEST_CASE("settings that can work are good, and nothing stays in the pool directory") {
  const Settings settings;
  CHECK_THAT(settings.error(), Equals(""));
  CHECK_THAT(check_pool_directory(settings.config.pool_directory), Equals(""));
  CHECK(std::filesystem::is_empty(settings.directory.path()));
}

TEST_CASE("PoolDirectoryThatIsLostIsNamedAndNoReasonAgainstAStart") {
  Settings settings;
  const auto [directory, why] = GENERATE(std::pair("/nonexistent/pool", "No such file or directory"),
                                         std::pair("/dev/null", "Not a directory"));
  settings.config.pool_directory = directory;
  CHECK_THAT(check_pool_directory(directory),
             Contains("[pool] directory") && Contains(directory) && Contains(why));
  CHECK_THAT(settings.error(), Equals(""));
  CHECK_THAT(settings.error(true), Equals(""));
}

TEST_CASE("PoolDirectoryThatTheServiceDoesNotSeeIsWarnedOf") {
  Config config;
  config.pool_directory = GENERATE(as<std::string>{}, "/home/alice/pool", "/home", "/root/pool",
                                   "/run/user/1000/x", "/var/tmp/../../home/alice");
  CHECK_THAT(warning_for_service(config), Contains("ProtectHome") && Contains(config.pool_directory));
}

TEST_CASE("NvmThatTheServiceDoesNotSeeIsWarnedOf") {
  Config config;
  config.tiers.nvm = NvmRule{.bytes = 4 * mib, .directory = "/home/ada/pmem"};
  CHECK_THAT(warning_for_service(config), Contains("[[tier]] nvm directory") && Contains("/home/ada/pmem"));
  config.tiers.nvm->directory = "/mnt/pmem";
  CHECK_THAT(warning_for_service(config), Equals(""));
}

TEST_CASE("PoolDirectoryThatTheServiceSeesIsNotWarnedOf") {
  const Settings settings;
  CHECK_THAT(warning_for_service(settings.config), Equals(""));
  Config config;
  config.pool_directory = GENERATE(as<std::string>{}, "/var/tmp", "/homes/pool", "/nvme/home", "/run/users");
  CHECK_THAT(warning_for_service(config), Equals(""));
}

TEST_CASE("GroupThatDoesNotExistIsRefused") {
  Settings settings;
  settings.config.group = "no-such-group";
  CHECK_THAT(settings.error(), Contains("no-such-group") && Contains("groupadd"));
}

TEST_CASE("BudgetOverTheMachinesMemoryIsRefused") {
  Settings settings;
  settings.config.dram.value = 99999ULL << 40;
  CHECK_THAT(settings.error(), Contains("[budget] dram") && Contains("more than"));
}

TEST_CASE("BudgetWithWhichNoJobCanJoinIsRefused") {
  Settings settings;
  settings.config.dram.value = mib;
  CHECK_THAT(settings.error(), Contains("no job can work") && Contains("32.0 MiB"));
}

TEST_CASE("UserCapWithWhichNoJobCanJoinIsRefused") {
  Settings settings;
  settings.config.per_user = Amount::percent(5);  // 3.2 MiB
  CHECK_THAT(settings.error(), Contains("[budget] per_user") && Contains("64.0 MiB") && Contains("4.0 MiB"));
  settings.config.per_user = {Amount::Unit::bytes, 4 * mib - 1};
  CHECK_THAT(settings.error(), Contains("[budget] per_user"));
  CHECK_THAT(settings.error(true), Equals(""));  // a private daemon's one user is not capped
  settings.config.per_user = {Amount::Unit::bytes, 4 * mib};
  CHECK_THAT(settings.error(), Equals(""));
}

TEST_CASE("JobCapWithWhichNoJobCanJoinIsRefused") {
  Settings settings;
  settings.config.per_job = {Amount::Unit::bytes, 4 * mib - 1};
  CHECK_THAT(settings.error(), Contains("[budget] per_job") && Contains("4.0 MiB"));
  settings.config.per_job = {Amount::Unit::bytes, 4 * mib};
  CHECK_THAT(settings.error(), Equals(""));
}

TEST_CASE("TooFewWritesADayAreRefused") {
  Settings settings;
  settings.config.writes_per_day = mib;
  for (const bool is_private : {false, true})
    CHECK_THAT(settings.error(is_private), Contains("[pool] writes_per_day") && Contains("4.0 MiB"));
  settings.config.writes_per_day = 4 * mib;
  CHECK_THAT(settings.error(), Equals(""));
}

TEST_CASE("PoolSizeOutOfRangeIsRefused") {
  Settings settings;
  settings.config.pool_bytes = 1;
  CHECK_THAT(settings.error(), Contains("[pool] size") && Contains("4.0 MiB"));
  settings.config.pool_bytes = 9999ULL << 40;
  CHECK_THAT(settings.error(), Contains("[pool] size") && Contains("whole file system"));
}

TEST_CASE("EncryptionThatThePoolDirectoryCannotHaveIsRefused") {
  Settings settings;
  settings.config.pool_directory = "/dev/shm";
  CHECK_THAT(settings.error(), Equals(""));
  settings.config.encrypts_pool = true;
  for (const bool is_private : {false, true})
    CHECK_THAT(settings.error(is_private),
               Contains("[pool] encrypt") && Contains("/dev/shm") && Contains("encrypt = \"no\""));
}

TEST_CASE("EncryptionOfAPoolDirectoryThatIsLostIsLookedAtWhenItIsBack") {
  Settings settings;
  settings.config.pool_directory = "/nonexistent/pool";
  settings.config.encrypts_pool = true;
  CHECK_THAT(settings.error(), Equals(""));
}

TEST_CASE("NvmThatCannotBeHadIsRefusedWithItsLine") {
  Settings settings;
  settings.config.tiers.nvm = NvmRule{.bytes = 4 * mib, .directory = "/dev/shm", .line = 7};
  CHECK_THAT(settings.error(), Equals(""));
  settings.config.tiers.nvm->directory = "/nonexistent/pmem";
  for (const std::string& error : {settings.error(true), check_directories(settings.config)})
    CHECK_THAT(error, Contains("[[tier]] nvm (line 7)") && Contains("/nonexistent/pmem") &&
                          Contains("name another directory"));
  CHECK_THAT(settings.error(false), Equals(""));  // a service starts without it
  settings.config.tiers.nvm->directory = "/dev/shm";
  settings.config.tiers.nvm->bytes = std::uint64_t{4096} << 30;
  CHECK_THAT(settings.error(), Contains("more than the whole file system of /dev/shm"));
  settings.config.tiers.nvm->directory.clear();
  REQUIRE(settings.config.tiers.nvm->nodes.read("1023"));
  CHECK_THAT(settings.error(), Contains("name others with nodes = \"1\""));
}

TEST_CASE("NvmInPlainTextIsRefusedWherePoolsAreEncrypted") {
  Settings settings;
  settings.config.encrypts_pool = true;
  settings.config.tiers.nvm = NvmRule{.bytes = 4 * mib, .directory = "/dev/shm", .line = 7};
  const std::string error = settings.error();
  if (error.find("[pool] encrypt:") == 0) {
    puts("SKIP: the pool's directory cannot be encrypted here, which is refused before");
    return;
  }
  CHECK_THAT(error, Contains("[[tier]] nvm (line 7)") && Contains("not encrypted"));
}
