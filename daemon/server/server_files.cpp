// Pool files that clients send; see received_files.h for why the loop neither receives nor looks at them.
#include <fcntl.h>
#include <sys/epoll.h>

#include "daemon/server/server.h"

namespace terrace::daemon {

// The greeting waits until its pool file was looked at. Nothing is read meanwhile but by the thread that
// looks.
std::string Server::inspect_pool(ConnectionId id, const wire::Hello& hello) {
  Connection& connection = *connections_.at(id);
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its pool file";
  connection.role = Connection::Role::inspected;
  connection.waiting = hello;
  poller_.change(connection.fd(), tag_of(tag_connection, id), 0);
  door_.files().inspect(id, connection.peer().uid, std::move(duplicate));
  return {};
}

void Server::take_inspected() {
  for (ReceivedFiles::Result& result : door_.files().results()) {
    take_inspected(result);
    door_.files().give_back(result.uid, std::move(result.file));
  }
}

void Server::take_inspected(const ReceivedFiles::Result& result) {
  const auto found = connections_.find(result.ticket);
  if (found == connections_.end()) return;  // it did not wait
  Connection& connection = *found->second;
  connection.role = Connection::Role::fresh;
  poller_.change(connection.fd(), tag_of(tag_connection, result.ticket), EPOLLIN | EPOLLRDHUP);
  const wire::Hello hello = *std::exchange(connection.waiting, std::nullopt);
  if (const auto fault = greet(result.ticket, hello, result.file); !fault.empty())
    drop(result.ticket, fault, true);
}

}  // namespace terrace::daemon
