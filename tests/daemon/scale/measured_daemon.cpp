// See measured_daemon.h.
#include "tests/daemon/scale/measured_daemon.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace terrace::tests::scale {

MeasuredDaemon::MeasuredDaemon(const std::string& program) {
  ::chmod(directory_.path().c_str(), 0755);
  open_notify_socket();
  start(program);
  for (int i = 0; i < 1000 && !serving_; ++i) {
    serving_ = static_cast<bool>(connect_as(0, socket_));
    if (!serving_) ::usleep(10'000);
  }
  ::chmod(socket_.c_str(), 0666);
  last_ns_ = clock_ns();
  listener_ = std::thread([this] { listen(); });
}

MeasuredDaemon::~MeasuredDaemon() {
  stopping_ = true;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  listener_.join();
}

void MeasuredDaemon::open_notify_socket() {
  notify_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, notify_path_.c_str(),
              std::min(notify_path_.size(), sizeof address.sun_path - 1));
  const timeval pause{0, 100'000};
  ::setsockopt(notify_.get(), SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof pause);
  if (::bind(notify_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    notify_.reset();
}

void MeasuredDaemon::start(const std::string& program) {
  const std::string config = directory_ / "terraced.toml";
  std::ofstream(config) << "[daemon]\ngroup = \"\"\n[metrics]\nlisten = \"" << metrics_ << "\"\n";
  std::vector<std::string> words{program,  "--config",    config,   "--socket",        socket_,
                                 "--dram", "16G",         "--pool", directory_.path(), "--pool-size",
                                 "64G",    "--log-level", "error"};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string watchdog = std::to_string(watchdog_us);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setenv("NOTIFY_SOCKET", notify_path_.c_str(), 1);
  ::setenv("WATCHDOG_USEC", watchdog.c_str(), 1);
  ::unsetenv("WATCHDOG_PID");
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

void MeasuredDaemon::listen() {
  while (!stopping_) {
    std::array<char, 256> message;
    const ssize_t got = ::recv(notify_.get(), message.data(), message.size(), 0);
    if (got <= 0) continue;
    if (std::string_view(message.data(), static_cast<std::size_t>(got)).find("WATCHDOG=1") ==
        std::string_view::npos)
      continue;
    const std::uint64_t now = clock_ns();
    longest_ns_ = std::max<std::uint64_t>(longest_ns_, now - last_ns_);
    last_ns_ = now;
    ++pings_;
  }
}

std::uint64_t MeasuredDaemon::longest_silence_ns() const {
  return std::max<std::uint64_t>(longest_ns_, clock_ns() - last_ns_);
}

std::uint64_t MeasuredDaemon::cpu_ns() const {
  std::uint64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
    std::uint64_t ns = 0;
    std::ifstream(task.path() / "schedstat") >> ns;
    sum += ns;
  }
  return sum;
}

std::uint64_t MeasuredDaemon::status_bytes(const std::string& label) const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(label)) return std::strtoull(line.c_str() + label.size(), nullptr, 10) * 1024;
  }
  return 0;
}

}  // namespace terrace::tests::scale
