#include "tests/hazards/machine/daemon.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "liballoc/wire/protocol.h"
#include "tests/hazards/machine/encrypted_pool.h"

namespace terrace::hazards {
namespace {

int connected_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

bool accepts_connections(const std::string& path) {
  const int fd = connected_socket(path);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

Daemon::Pool usual_pool(const std::string& directory) {
  const std::string* const encrypted = encrypted_pool_directory();
  return encrypted == nullptr ? Daemon::Pool{directory} : Daemon::Pool{*encrypted, true, "4G"};
}

}  // namespace

Daemon::Daemon(const std::string& directory) : Daemon(directory, usual_pool(directory)) {}

Daemon::Daemon(const std::string& directory, const Pool& pool) : socket_(directory + "/d.sock") {
  const std::string config = directory + "/terraced.toml";
  std::ofstream(config) << "[pool]\nencrypt = \"" << (pool.is_encrypted ? "yes" : "no") << "\"\n";
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(HAZARD_DAEMON, HAZARD_DAEMON, "--config", config.c_str(), "--socket", socket_.c_str(), "--dram",
          "512M", "--pool", pool.directory.c_str(), "--pool-size", pool.size.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 500 && !accepts_connections(socket_); ++i) usleep(10'000);
}

Daemon::~Daemon() { end(SIGKILL); }

void Daemon::end(int signal) {
  if (pid_ <= 0) return;
  kill(pid_, signal);
  if (signal == SIGSTOP) return;
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string Daemon::set_budget(const std::string& job, std::size_t bytes) const {
  const std::string text =
      R"({"verb":"set_budget","job":")" + job + R"(","bytes":)" + std::to_string(bytes) + "}";
  wire::Header header;
  header.type = wire::Type::control;
  header.length = static_cast<std::uint32_t>(text.size());
  std::string packet(reinterpret_cast<const char*>(&header), sizeof header);
  packet += text;
  const int fd = connected_socket(socket_);
  REQUIRE(fd >= 0);
  REQUIRE(send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size()));
  char answer[4096] = {};
  const ssize_t got = recv(fd, answer, sizeof answer, 0);
  close(fd);
  REQUIRE(got > static_cast<ssize_t>(sizeof(wire::Reply)));
  return {answer + sizeof(wire::Reply), answer + got};
}

}  // namespace terrace::hazards
