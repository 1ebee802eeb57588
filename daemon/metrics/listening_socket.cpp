// See listening_socket.h.
#include "daemon/metrics/listening_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/group.h"

namespace terrace::daemon {
namespace {

constexpr int backlog = 16;

std::string failure(const char* what, const std::string& where, const char* remedy) {
  return fmt::format("[metrics] listen: cannot {} {}: {}; {}; metrics are not served", what, where,
                     std::strerror(errno), remedy);
}

const char* remedy_for(const MetricsAddress& address, int error) {
  if (address.is_unix()) return "name a path in a directory that terraced may write to, such as /run/terrace";
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL)
    return "the service has no network of its own: enable terraced-metrics.socket instead (terraced.toml(5))";
  return "choose another port";
}

// Whether somebody serves the Unix socket.
bool is_served(const MetricsAddress& address) {
  const UniqueFd trial(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(trial.get(), reinterpret_cast<const sockaddr*>(&address.address), address.bytes) == 0 ||
         errno == EAGAIN;
}

}  // namespace

// What a daemon that was killed left is removed.
std::string ListeningSocket::clear_path(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode))
    return fmt::format(
        "[metrics] listen: {} exists and is no socket; remove it or name another path; metrics are not "
        "served",
        path);
  if (is_served(parse_metrics_address(path)))
    return fmt::format(
        "[metrics] listen: another program serves {}; name another path; metrics are not served", path);
  if (::unlink(path.c_str()) != 0) return failure("remove", path, "name another path");
  return {};
}

std::string ListeningSocket::make(const Config& config, bool only_owner) {
  const std::string& where = config.metrics.listen;
  const MetricsAddress address = parse_metrics_address(where);
  if (!address.error.empty()) return fmt::format("[metrics] listen: {}", address.error);
  is_unix_ = address.is_unix();
  if (is_unix_)
    if (std::string error = clear_path(where); !error.empty()) return error;
  UniqueFd socket(::socket(address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failure("make a socket for", where, remedy_for(address, errno));
  const int on = 1;
  if (!is_unix_) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.address), address.bytes);
  ::umask(mask);
  if (bound != 0) return failure("bind", where, remedy_for(address, errno));
  if (is_unix_) path_ = where;
  if (is_unix_ && !only_owner) {
    if (std::string error = give_to_group(where, config.group); !error.empty()) return error;
    if (::chmod(where.c_str(), 0660) != 0)
      return failure("set the mode of", where, remedy_for(address, errno));
  }
  if (::listen(socket.get(), backlog) != 0) return failure("listen on", where, remedy_for(address, errno));
  socket_ = std::move(socket);
  return {};
}

std::string ListeningSocket::adopt(UniqueFd socket) {
  MetricsAddress address;
  address.bytes = sizeof address.address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.address), &address.bytes) != 0 ||
      !address.is_local())
    return "the socket that systemd hands over for metrics can be reached from other machines, and metrics "
           "name users and their jobs to whoever asks; set ListenStream=127.0.0.1:PORT with `systemctl edit "
           "terraced-metrics.socket`; metrics are not served";
  is_unix_ = address.is_unix();
  socket_ = std::move(socket);
  return {};
}

std::string ListeningSocket::open(const Config& config, bool only_owner, UniqueFd handed_over) {
  if (handed_over) return adopt(std::move(handed_over));
  if (config.metrics.listen.empty()) return {};
  std::string error = make(config, only_owner);
  if (!error.empty()) close();
  return error;
}

void ListeningSocket::close() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
  socket_.reset();
}

}  // namespace terrace::daemon
