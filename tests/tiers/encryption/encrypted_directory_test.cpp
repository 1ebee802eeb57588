// What lies on the drive of what was written into an encrypted directory, who can read it, and until when.
#include "tiers/encryption/encrypted_directory.h"

#include <fcntl.h>
#include <linux/fscrypt.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/tiers/encryption/loop_file_system.h"
#include "tiers/records/descriptor.h"

using terrace::encryption::EncryptedDirectory;
using terrace::encryption::KeyIdentifier;
using terrace::records::Descriptor;
using terrace::tests::LoopFileSystem;

using Catch::Matchers::Contains;

namespace {

std::string repeated(const std::string& text) {
  std::string whole;
  while (whole.size() < 256 * 1024) whole += text;
  return whole;
}

std::unique_ptr<EncryptedDirectory> made_in(const LoopFileSystem& file_system) {
  std::string problem;
  auto made = EncryptedDirectory::make(file_system.path(), &problem);
  INFO(problem);
  REQUIRE(made);
  return made;
}

int open_unnamed(const std::string& directory) {
  return ::open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
}

void write_all(int fd, const std::string& text) {
  REQUIRE(fd >= 0);
  REQUIRE(::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  REQUIRE(::fsync(fd) == 0);
}

std::string read_all(int fd, std::size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t got = ::pread(fd, text.data(), bytes, 0);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

std::size_t entries_in(const std::string& path) {
  return static_cast<std::size_t>(std::count_if(std::filesystem::directory_iterator(path),
                                                std::filesystem::directory_iterator(), [](const auto& entry) {
                                                  return entry.path().filename().string().starts_with(
                                                      EncryptedDirectory::prefix);
                                                }));
}

// FSCRYPT_KEY_STATUS_..., of the file system.
unsigned status_of(const LoopFileSystem& file_system, const KeyIdentifier& key) {
  const Descriptor fd(::open(file_system.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  fscrypt_get_key_status_arg argument{};
  argument.key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
  std::copy(key.begin(), key.end(), argument.key_spec.u.identifier);
  REQUIRE(::ioctl(fd.get(), FS_IOC_GET_ENCRYPTION_KEY_STATUS, &argument) == 0);
  return argument.status;
}

}  // namespace

TEST_CASE("WhatIsWrittenIsNotOnTheDrive", "[encryption]") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  const auto made = made_in(file_system);
  const std::string secret = "weights of a model that nobody else may see ", open = "what everybody may see ";
  const Descriptor hidden(open_unnamed(made->path())), plain(open_unnamed(file_system.path()));
  write_all(hidden.get(), repeated(secret));
  write_all(plain.get(), repeated(open));
  CHECK(made->encrypts(hidden.get()));
  CHECK_FALSE(made->encrypts(plain.get()));
  CHECK(read_all(hidden.get(), secret.size()) == secret);
  CHECK(file_system.drive_has(open));
  CHECK_FALSE(file_system.drive_has(secret));
}

TEST_CASE("AnotherKeyReadsNothing", "[encryption]") {
  LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  std::string path;
  KeyIdentifier first_key{};
  {
    const auto first = made_in(file_system);
    path = first->path();
    first_key = first->key();
    const Descriptor fd(::open((path + "/kept").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    write_all(fd.get(), repeated("secret"));
  }
  file_system.unmount();
  file_system.mount();
  REQUIRE(file_system.is_there());
  const auto second = made_in(file_system);
  CHECK(second->key() != first_key);
  REQUIRE(std::filesystem::exists(path));
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    ++seen;
    CHECK(entry.path().filename() != "kept");
    CHECK(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC) == -1);
    CHECK(errno == ENOKEY);
  }
  CHECK(seen == 1);
}

TEST_CASE("WhoHasAFileOpenReadsAndWritesItWhenTheKeyIsTakenBack", "[encryption]") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  auto made = made_in(file_system);
  const KeyIdentifier key = made->key();
  Descriptor fd(open_unnamed(made->path()));
  const std::string text = repeated("pages of a job that runs on ");
  write_all(fd.get(), text);
  CHECK(status_of(file_system, key) == FSCRYPT_KEY_STATUS_PRESENT);
  made.reset();
  CHECK(status_of(file_system, key) == FSCRYPT_KEY_STATUS_INCOMPLETELY_REMOVED);
  CHECK(entries_in(file_system.path()) == 0);
  CHECK(read_all(fd.get(), text.size()) == text);
  const std::string more = repeated("written without the daemon ");
  write_all(fd.get(), more);
  CHECK(read_all(fd.get(), more.size()) == more);
  CHECK_FALSE(file_system.drive_has("written without the daemon"));
}

TEST_CASE("DirectoryAndKeyOfAKilledMakerAreTakenAwayByTheNext", "[encryption]") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  int keys[2];
  REQUIRE(::pipe(keys) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string problem;
    const auto made = EncryptedDirectory::make(file_system.path(), &problem);
    if (made && ::write(keys[1], made->key().data(), made->key().size()) < 0) ::_exit(1);
    ::raise(SIGKILL);
  }
  ::close(keys[1]);
  KeyIdentifier left{};
  REQUIRE(::read(keys[0], left.data(), left.size()) == static_cast<ssize_t>(left.size()));
  ::close(keys[0]);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  REQUIRE(entries_in(file_system.path()) == 1);
  REQUIRE(status_of(file_system, left) == FSCRYPT_KEY_STATUS_PRESENT);

  auto other = made_in(file_system);
  const auto living = made_in(file_system);
  other.reset();  // it has swept by then
  CHECK(status_of(file_system, left) == FSCRYPT_KEY_STATUS_ABSENT);
  CHECK(entries_in(file_system.path()) == 1);  // who lives keeps his
  CHECK(status_of(file_system, living->key()) == FSCRYPT_KEY_STATUS_PRESENT);
}

TEST_CASE("WhereNoDirectoryCanBeEncryptedNothingIsLeft", "[encryption]") {
  std::string problem;
  CHECK_FALSE(EncryptedDirectory::make("/dev/shm", &problem));
  CHECK_THAT(problem, Contains("no encrypted directory can be made in /dev/shm: "));
  CHECK(entries_in("/dev/shm") == 0);
  CHECK_FALSE(EncryptedDirectory::make("/nonexistent", &problem));
  CHECK_THAT(problem, Contains("/nonexistent: No such file"));
}
