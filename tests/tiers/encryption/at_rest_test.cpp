// What a directory says of its encryption, on file systems that have it and that do not.
#include "tiers/encryption/at_rest.h"

#include <sys/sysmacros.h>

#include <catch2/catch.hpp>

#include "tests/tiers/encryption/loop_file_system.h"
#include "tiers/encryption/encrypted_directory.h"

using terrace::encryption::AtRest;
using terrace::encryption::EncryptedDirectory;
using terrace::encryption::is_encrypted_device;
using terrace::encryption::look_at_rest;
using terrace::tests::LoopFileSystem;
using terrace::tests::TemporaryDirectory;

using Catch::Matchers::Contains;

TEST_CASE("FileSystemMadeWithEncryptionCanHaveIt", "[encryption]") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  const AtRest found = look_at_rest(file_system.path());
  CHECK(found.how == AtRest::How::possible);
  CHECK_FALSE(found.is_encrypted());
  std::string problem;
  const auto made = EncryptedDirectory::make(file_system.path(), &problem);
  REQUIRE(made);
  CHECK(look_at_rest(made->path()).how == AtRest::How::directory);
  CHECK(look_at_rest(made->path()).is_encrypted());
}

TEST_CASE("FileSystemMadeWithoutEncryptionSaysHowToTurnItOn", "[encryption]") {
  const LoopFileSystem file_system(false);
  if (!file_system.is_there()) return;
  const AtRest found = look_at_rest(file_system.path());
  CHECK(found.how == AtRest::How::impossible);
  CHECK_THAT(found.reason, Contains(file_system.path()) && Contains("tune2fs -O encrypt"));
}

TEST_CASE("FileSystemThatKnowsNoEncryptionNamesDmCrypt", "[encryption]") {
  const AtRest found = look_at_rest("/dev/shm");
  CHECK(found.how == AtRest::How::impossible);
  CHECK_THAT(found.reason, Contains("/dev/shm") && Contains("dm-crypt"));
  CHECK_THAT(look_at_rest("/nonexistent").reason, Contains("/nonexistent: No such file"));
}

TEST_CASE("DeviceIsEncryptedIfAllThatItIsMadeOfIs", "[encryption]") {
  const TemporaryDirectory sysfs;
  const auto is_encrypted = [&](unsigned minor) {
    return is_encrypted_device(makedev(250, minor), sysfs.path());
  };
  sysfs.write("dev/block/250:0/dm/uuid", "CRYPT-PLAIN-terrace_pool\n");
  CHECK(is_encrypted(0));
  sysfs.write("dev/block/250:1/dm/uuid", "LVM-abc\n");
  CHECK_FALSE(is_encrypted(1));
  sysfs.write("dev/block/250:2/dm/uuid", "LVM-abc\n");
  sysfs.write("dev/block/250:2/slaves/dm-0/dm/uuid", "CRYPT-LUKS2-abc\n");
  CHECK(is_encrypted(2));
  sysfs.write("dev/block/250:2/slaves/sda/size", "1\n");  // a part of it is on a plain disk
  CHECK_FALSE(is_encrypted(2));
  sysfs.write("block/md0/slaves/dm-0/dm/uuid", "CRYPT-LUKS2-abc\n");
  sysfs.write("block/md0/md0p1/partition", "1\n");
  std::filesystem::create_symlink("../../block/md0/md0p1", sysfs / "dev/block/250:3");
  CHECK(is_encrypted(3));
  CHECK_FALSE(is_encrypted(4));  // not known
}
