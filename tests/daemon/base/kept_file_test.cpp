// A file that outlives the daemon, by its name and at systemd, whose end of the conversation is played here.
#include "daemon/base/kept_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "tests/daemon/temporary_directory.h"

using namespace terrace;
using namespace terrace::daemon;

namespace {

// Where a service sends what it tells systemd, with at most one descriptor each.
class Manager {
 public:
  explicit Manager(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~Manager() { ::unsetenv("NOTIFY_SOCKET"); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // What it holds after all that it was told, as systemd keeps it.
  DescriptorStore::Held& held() {
    while (take_one()) {
    }
    return held_;
  }

 private:
  bool take_one() {
    std::array<char, 4096> text{};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    iovec part{text.data(), text.size() - 1};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    if (::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return false;
    const std::string told = text.data();
    const std::string name = told.substr(told.find("FDNAME=") + std::strlen("FDNAME="));
    if (told.find("FDSTOREREMOVE=1") != std::string::npos) held_.erase(name);
    const cmsghdr* const passed = CMSG_FIRSTHDR(&header);
    if (passed == nullptr) return true;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(passed), sizeof fd);
    CHECK(told.find("FDSTORE=1") != std::string::npos);
    held_[name] = UniqueFd(fd);
    return true;
  }

  UniqueFd socket_;
  DescriptorStore::Held held_;
};

struct KeptFileFixture {
  tests::TemporaryDirectory directory;
  std::string socket = directory / "t.sock", path = socket + ".kept";
  Manager manager{directory / "notify"};
  DescriptorStore store;
  KeptFile file{socket, "kept", &store};

  // What the next daemon finds.
  records::PrivateFile next() {
    DescriptorStore handed_over(std::move(manager.held()));
    return KeptFile(socket, "kept", &handed_over).read(100);
  }
};

}  // namespace

TEST_CASE_METHOD(KeptFileFixture, "TheNextDaemonFindsAFileByItsName") {
  REQUIRE(file.begin("one") == 0);
  CHECK(KeptFile(socket, "kept", nullptr).read(100).bytes == "one");
  CHECK(file.is_there());
  REQUIRE(::pwrite(file.fd(), "two", 3, 0) == 3);
  CHECK(KeptFile(socket, "kept", nullptr).read(100).bytes == "two");
}

TEST_CASE_METHOD(KeptFileFixture, "SystemdHoldsAFileWhoseNameWasRemoved") {
  REQUIRE(file.begin("one") == 0);
  REQUIRE(::pwrite(file.fd(), "two", 3, 0) == 3);
  std::filesystem::remove(path);
  CHECK_FALSE(file.is_there());
  CHECK(KeptFile(socket, "kept", nullptr).read(100).error == ENOENT);
  CHECK(next().bytes == "two");
}

TEST_CASE_METHOD(KeptFileFixture, "SystemdHoldsTheLatestFileAlone") {
  REQUIRE(file.begin("one") == 0);
  REQUIRE(file.begin("two") == 0);
  REQUIRE(manager.held().size() == 1);
  CHECK(next().bytes == "two");
}

TEST_CASE_METHOD(KeptFileFixture, "AFileThatIsRemovedIsHeldNoMore") {
  REQUIRE(file.begin("one") == 0);
  REQUIRE(manager.held().size() == 1);
  file.remove();
  CHECK(manager.held().empty());
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(next().error == ENOENT);
}

TEST_CASE_METHOD(KeptFileFixture, "WhatSystemdHoldsIsJudgedLikeAFileWithAName") {
  REQUIRE(file.begin("one") == 0);
  SECTION("open to others") { REQUIRE(::chmod(path.c_str(), 0640) == 0); }
  SECTION("with a second name") { std::filesystem::create_hard_link(path, path + ".too"); }
  SECTION("too long") { std::filesystem::resize_file(path, 101); }
  CHECK(next().error == EBADMSG);
}

TEST_CASE_METHOD(KeptFileFixture, "WithoutANewFileTheOldOneStands") {
  REQUIRE(file.begin("one") == 0);
  std::filesystem::create_directory(path + ".new");
  CHECK(file.begin("two") != 0);
  CHECK(next().bytes == "one");
}
