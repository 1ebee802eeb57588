// See listener.h.
#include "daemon/sockets/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "daemon/base/group.h"

namespace terrace::daemon {
namespace {

constexpr int backlog = 512;
constexpr int lock_attempts = 20;  // a job may hold the lock for an instant to see whether we do

std::string failure(const char* what, const std::string& path, const char* remedy) {
  return fmt::format("{} {}: {}; {}", what, path, std::strerror(errno), remedy);
}

bool is_regular_file(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

void take(UniqueFd fd, const std::string& name, HandedOver* handed_over) {
  if (is_regular_file(fd.get())) {
    handed_over->held[name] = std::move(fd);
    return;
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  if (::sd_is_socket_unix(fd.get(), SOCK_SEQPACKET, 1, nullptr, 0) > 0)
    handed_over->control = std::move(fd);
  else if (::sd_is_socket(fd.get(), AF_UNSPEC, SOCK_STREAM, 1) > 0)
    handed_over->metrics = std::move(fd);
  else
    spdlog::warn(
        "systemd hands over {}, which is neither a socket for jobs or metrics nor a file: it is closed",
        name);
}

}  // namespace

HandedOver take_handed_over() {
  HandedOver result;
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);
  for (int i = 0; i < count; ++i) {
    take(UniqueFd(SD_LISTEN_FDS_START + i), names[i], &result);
    std::free(names[i]);
  }
  std::free(names);
  return result;
}

void Listener::adopt(UniqueFd socket) {
  socket_ = std::move(socket);
  sockaddr_un address{};
  socklen_t length = sizeof address - 1;
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
      address.sun_path[0] == '/')
    path_ = address.sun_path;
}

std::string Listener::share_adopted(const Config& config) {
  if (path_ != config.socket)
    spdlog::warn(
        "[daemon] socket {} is not used: systemd hands over {}; set ListenSequentialPacket= with `systemctl "
        "edit terraced.socket`",
        config.socket, path_);
  if (auto error = check_group(config.group); !error.empty()) return error;
  if (const auto problem = give_to_group(path_, config.group); !problem.empty())
    spdlog::warn("{}; or set SocketGroup={} with `systemctl edit terraced.socket`", problem, config.group);
  return {};
}

// A lock counts only while its file is the one of that name: the last owner removes it.
bool Listener::try_lock(const std::string& path) {
  lock_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return false;
  struct stat locked, named;
  return ::fstat(lock_.get(), &locked) == 0 && ::stat(path.c_str(), &named) == 0 &&
         locked.st_ino == named.st_ino;
}

std::string Listener::lock() {
  const std::string path = path_ + ".lock";
  for (int attempt = 0; attempt < lock_attempts; ++attempt) {
    if (try_lock(path)) return {};
    if (!lock_)
      return failure("cannot create", path,
                     "the directory must exist and be writable for terraced (or use --socket)");
    ::poll(nullptr, 0, 10);
  }
  lock_.reset();
  taken_ = true;
  return fmt::format("another terraced serves {}; use it, stop it, or choose another --socket", path_);
}

std::string Listener::bind(const Config& config, bool only_owner) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) return fmt::format("the socket path {} is too long", path_);
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat status;
  const bool exists = ::lstat(path_.c_str(), &status) == 0;
  if (exists && !S_ISSOCK(status.st_mode))
    return fmt::format("{} exists and is not a socket; remove it or choose another --socket", path_);
  found_remains_ = exists && ::unlink(path_.c_str()) == 0;
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(mask);
  if (bound != 0) return failure("cannot bind", path_, "choose another --socket");
  bound_ = true;
  if (!only_owner) {
    if (auto error = give_to_group(path_, config.group); !error.empty()) return error;
    if (::chmod(path_.c_str(), 0660) != 0)
      return failure("cannot set the mode of", path_, "choose another --socket");
  }
  if (::listen(socket_.get(), backlog) != 0)
    return failure("cannot listen on", path_, "choose another --socket");
  return {};
}

std::string Listener::open(const Config& config, bool only_owner, UniqueFd handed_over) {
  path_ = config.socket;
  if (handed_over) {
    adopt(std::move(handed_over));
    return only_owner ? std::string() : share_adopted(config);
  }
  if (auto error = lock(); !error.empty()) return error;
  return bind(config, only_owner);
}

void Listener::close() {
  if (bound_) ::unlink(path_.c_str());
  bound_ = false;
  if (lock_) ::unlink((path_ + ".lock").c_str());
  socket_.reset();
  lock_.reset();
}

}  // namespace terrace::daemon
