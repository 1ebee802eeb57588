// See door.h.
#include "daemon/sockets/door.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cerrno>

#include "daemon/sockets/connection.h"

namespace terrace::daemon {
namespace {

UniqueFd spare_descriptor() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

std::string Door::open(const Config& config, bool is_private, UniqueFd handed_over) {
  if (auto error = listener_.open(config, is_private, std::move(handed_over)); !error.empty()) return error;
  spare_fd_ = spare_descriptor();
  poller_.add(listener_.fd(), tag_, EPOLLIN);
  return {};
}

UniqueFd Door::accept(std::uint64_t now_ns) {
  if (is_overrun(now_ns)) return UniqueFd();
  for (;;) {
    UniqueFd socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket || (errno != ECONNABORTED && errno != EINTR)) {
      if (!socket && (errno == EMFILE || errno == ENFILE)) shed_one(now_ns);
      return socket;
    }
  }
}

void Door::shed_one(std::uint64_t now_ns) {
  spare_fd_.reset();
  dispose(UniqueFd(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC)));
  spare_fd_ = spare_descriptor();
  if (!spare_fd_) listen(false);
  std::uint64_t suppressed = 0;
  if (log_limit_.allow(now_ns, &suppressed))
    spdlog::warn(
        "out of descriptors: a client was turned away; raise LimitNOFILE ({} earlier lines left out)",
        suppressed);
}

bool Door::is_overrun(std::uint64_t now_ns) {
  if (received_files_.pending() < max_closing) return false;
  std::uint64_t suppressed = 0;
  if (log_limit_.allow(now_ns, &suppressed))
    spdlog::warn(
        "{} sockets are closing, with descriptors in them: terraced serves no new client until some have "
        "closed ({} earlier lines left out)",
        received_files_.pending(), suppressed);
  listen(false);
  return true;
}

void Door::let_in() {
  if (!spare_fd_) spare_fd_ = spare_descriptor();
  if (spare_fd_ && received_files_.pending() < max_closing) listen(true);
}

void Door::listen(bool on) {
  if (listening_ == on) return;
  listening_ = on;
  poller_.change(listener_.fd(), tag_, on ? EPOLLIN : 0U);
}

void Door::dispose(UniqueFd socket, bool is_shared) {
  if (!socket) return;
  poller_.remove(socket.get());  // a duplicate would keep it watched
  const auto peer = peer_of(socket.get());
  ::shutdown(socket.get(), SHUT_RDWR);  // from here on nothing is queued in it
  if (is_shared || has_queued_files(socket.get()))
    received_files_.close(peer ? peer->uid : 0, std::move(socket));
}

}  // namespace terrace::daemon
