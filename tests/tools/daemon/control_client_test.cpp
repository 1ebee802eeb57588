// The client against something that listens but is no terraced.
#include "tools/cli/daemon/control_client.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "liballoc/wire/protocol.h"
#include "tests/tools/temporary_directory.h"
#include "tools/cli/run/private_daemon.h"

using namespace terrace;
using namespace terrace::cli;

namespace {

std::string reply_packet(const std::string& text, std::uint32_t flags = 0) {
  auto reply = wire::make<wire::Reply>();
  reply.flags = flags;
  reply.header.length += static_cast<std::uint32_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&reply), sizeof reply) + text;
}

// Takes one connection and one request, sends the packets, closes.
class Impostor {
 public:
  explicit Impostor(std::vector<std::string> packets)
      : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), packets_(std::move(packets)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(fd_, 1) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~Impostor() {
    thread_.join();
    close(fd_);
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  std::string path() const { return (directory_.path() / "s.sock").string(); }

 private:
  void serve() {
    const int client = accept(fd_, nullptr, nullptr);
    std::array<char, 8192> request{};
    if (recv(client, request.data(), request.size(), 0) > 0)
      for (const std::string& packet : packets_) send(client, packet.data(), packet.size(), MSG_NOSIGNAL);
    close(client);
  }

  TemporaryDirectory directory_;
  int fd_;
  std::vector<std::string> packets_;
  std::thread thread_;
};

Result<nlohmann::json> ask(std::vector<std::string> packets) {
  const Impostor impostor(std::move(packets));
  auto client = ControlClient::connect(impostor.path());
  REQUIRE(client);
  return client->request({{"verb", "ping"}});
}

}  // namespace

TEST_CASE("AnswersInPiecesArePutTogether") {
  const auto answer = ask({reply_packet("{\"a\"", wire::reply_more), reply_packet(":1}")});
  REQUIRE(answer);
  CHECK((*answer)["a"] == 1);
}

TEST_CASE("ErrorOfTheDaemonIsTheError") {
  const auto answer = ask({reply_packet(R"({"ok":false,"error":"no such job"})")});
  REQUIRE_FALSE(answer);
  CHECK(answer.error == "no such job");
}

TEST_CASE("WhatIsNoAnswerIsRefused") {
  auto wrong_magic = reply_packet("{}");
  wrong_magic[0] = 'x';
  auto wrong_length = reply_packet("{}");
  wrong_length[8] = 99;
  const auto goodbye = wire::make<wire::Goodbye>();
  const std::string packet =
      GENERATE_COPY(std::string("hello"), reply_packet("not json"), reply_packet("[1]"), wrong_magic,
                    wrong_length, std::string(reinterpret_cast<const char*>(&goodbye), sizeof goodbye));
  CHECK_FALSE(ask({packet}));
}

TEST_CASE("ConnectionClosedBeforeTheAnswerIsSaid") {
  const auto answer = ask({});
  REQUIRE_FALSE(answer);
  CHECK(answer.error.find("lost the daemon") != std::string::npos);
}

TEST_CASE("NobodyListeningSaysHowToStartOne") {
  const auto client = ControlClient::connect("/nonexistent/s.sock");
  REQUIRE_FALSE(client);
  CHECK(client.error.find("/nonexistent/s.sock") != std::string::npos);
  CHECK(client.error.find("terrace run") != std::string::npos);
}

TEST_CASE("SocketPathTooLongIsRefused") { CHECK_FALSE(ControlClient::connect("/" + std::string(200, 'x'))); }

TEST_CASE("OversizedRequestIsNotSent") {
  const Impostor impostor({});
  auto client = ControlClient::connect(impostor.path());
  REQUIRE(client);
  CHECK_FALSE(client->request({{"verb", std::string(8192, 'x')}}));
}

TEST_CASE("PrivateDirectoryIsMadeForUsAlone") {
  const TemporaryDirectory parent;
  REQUIRE(make_private_directory(parent.path() / "terrace"));
  struct stat found {};
  REQUIRE(stat((parent.path() / "terrace").c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0700);
  CHECK(make_private_directory(parent.path() / "terrace"));
}

TEST_CASE("SocketsAreLookedForInEveryPrivateDirectoryOfTheUser") {
  const TemporaryDirectory one, other;
  const auto open_to_all = one.path() / "open", link = one.path() / "link", mine = one.path() / "mine";
  REQUIRE(mkdir(mine.c_str(), 0700) == 0);
  REQUIRE(mkdir(open_to_all.c_str(), 0700) == 0);
  REQUIRE(chmod(open_to_all.c_str(), 0770) == 0);
  REQUIRE(symlink(mine.c_str(), link.c_str()) == 0);
  REQUIRE(mkdir((other.path() / "mine").c_str(), 0700) == 0);
  for (const auto& directory : {mine, open_to_all, other.path() / "mine"}) {
    std::ofstream(directory / "1.sock").put('x');
    std::ofstream(directory / "1.log").put('x');
  }
  auto found = sockets_in({mine, open_to_all, link, one.path() / "missing", other.path() / "mine"});
  std::vector<std::string> wanted{(mine / "1.sock").string(), (other.path() / "mine" / "1.sock").string()};
  std::sort(wanted.begin(), wanted.end());
  CHECK(found == wanted);
}

TEST_CASE("JobsOfAnotherSessionOfTheUserAreLookedForAsWell") {
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string kept = before != nullptr ? before : "";
  const std::string fallback = "/tmp/terrace-" + std::to_string(getuid());
  setenv("XDG_RUNTIME_DIR", "/somewhere", 1);
  const auto with = private_directories();
  unsetenv("XDG_RUNTIME_DIR");
  const auto without = private_directories();
  if (before != nullptr) setenv("XDG_RUNTIME_DIR", kept.c_str(), 1);
  CHECK(with.front() == "/somewhere/terrace");
  CHECK(std::find(with.begin(), with.end(), fallback) != with.end());
  CHECK(without.front() == fallback);
  CHECK(std::count(without.begin(), without.end(), fallback) == 1);
  CHECK(without.size() == 2);
}

TEST_CASE("PrivateDirectoryOpenToOthersIsRefused") {
  const TemporaryDirectory parent;
  REQUIRE(mkdir((parent.path() / "terrace").c_str(), 0755) == 0);
  CHECK_FALSE(make_private_directory(parent.path() / "terrace"));
}

TEST_CASE("PrivateDirectoryThatIsALinkIsRefused") {
  const TemporaryDirectory parent;
  REQUIRE(mkdir((parent.path() / "real").c_str(), 0700) == 0);
  REQUIRE(symlink("real", (parent.path() / "terrace").c_str()) == 0);
  CHECK_FALSE(make_private_directory(parent.path() / "terrace"));
}
