// Descriptors that clients send, and sockets that may hold some; see received_files.h for why neither is
// received nor closed by the loop.
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "daemon/server.h"

namespace terrace::daemon {

// The greeting waits until its pool file was looked at. Nothing is read meanwhile but by the thread that
// looks.
std::string Server::inspect_pool(ConnectionId id, const wire::Hello& hello) {
  Connection& connection = *connections_.at(id);
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its pool file";
  connection.role = Connection::Role::inspected;
  connection.waiting = hello;
  listen_to(connection.fd(), tag_of(tag_connection, id), 0);
  received_files_.inspect(id, connection.peer().uid, std::move(duplicate));
  return {};
}

void Server::take_inspected() {
  for (const ReceivedFiles::Result& result : received_files_.results()) {
    const auto found = connections_.find(result.ticket);
    if (found == connections_.end()) continue;  // it did not wait
    Connection& connection = *found->second;
    connection.role = Connection::Role::fresh;
    listen_to(connection.fd(), tag_of(tag_connection, result.ticket), EPOLLIN | EPOLLRDHUP);
    const wire::Hello hello = *std::exchange(connection.waiting, std::nullopt);
    if (const auto fault = begin_session(result.ticket, hello, result.file); !fault.empty())
      drop(result.ticket, fault, true);
  }
}

// Closes a client's socket: here, when nothing of the client's is closed with it. `is_shared`: a thread reads
// it.
void Server::dispose(UniqueFd socket, bool is_shared) {
  if (!socket) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);  // a duplicate would keep it watched
  const auto peer = peer_of(socket.get());
  ::shutdown(socket.get(), SHUT_RDWR);  // from here on nothing is queued in it
  if (is_shared || has_queued_files(socket.get()))
    received_files_.close(peer ? peer->uid : 0, std::move(socket));
}

void Server::shed_one() {
  spare_fd_.reset();
  dispose(UniqueFd(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC)));
  spare_fd_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!spare_fd_) listen_for_clients(false);
  std::uint64_t suppressed = 0;
  if (log_limit_.allow(now_ns_, &suppressed))
    spdlog::warn(
        "out of descriptors: a client was turned away; raise LimitNOFILE ({} earlier lines left out)",
        suppressed);
}

bool Server::is_overrun() {
  if (received_files_.pending() < max_closing) return false;
  std::uint64_t suppressed = 0;
  if (log_limit_.allow(now_ns_, &suppressed))
    spdlog::warn(
        "{} sockets wait for descriptors in them to be closed: nobody new is served until some are ({} "
        "earlier "
        "lines left out)",
        received_files_.pending(), suppressed);
  listen_for_clients(false);
  return true;
}

void Server::listen_for_clients(bool on) {
  if (on && !spare_fd_) spare_fd_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (on && (!spare_fd_ || received_files_.pending() >= max_closing)) return;
  if (accepting_ == on) return;
  accepting_ = on;
  listen_to(listener_.fd(), tag_of(tag_listener), on ? EPOLLIN : 0U);
}

void Server::listen_to(int fd, std::uint64_t tag, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

}  // namespace terrace::daemon
