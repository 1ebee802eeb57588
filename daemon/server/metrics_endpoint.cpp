// See metrics_endpoint.h.
#include "daemon/server/metrics_endpoint.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/sockets/connection.h"

namespace terrace::daemon {
namespace {

bool is_passing(int error) { return error == EAGAIN || error == EINTR || error == ECONNABORTED; }

}  // namespace

std::string MetricsEndpoint::open(const Config& config, bool only_owner, UniqueFd handed_over) {
  std::string error = socket_.open(config, only_owner, std::move(handed_over));
  if (socket_.is_open()) poller_.add(socket_.fd(), tag_of_(0), EPOLLIN);
  return error;
}

void MetricsEndpoint::close() {
  while (!clients_.empty()) drop(clients_.begin()->first);
  if (socket_.is_open()) poller_.remove(socket_.fd());
  socket_.close();
}

void MetricsEndpoint::handle(std::uint64_t number, std::uint32_t events, std::uint64_t now_ns) {
  number == 0 ? accept(now_ns) : serve(number, events, now_ns);
}

void MetricsEndpoint::listen(bool on) {
  if (!socket_.is_open() || is_listening_ == on) return;
  is_listening_ = on;
  poller_.change(socket_.fd(), tag_of_(0), on ? EPOLLIN : 0U);
}

// One a round. Who may not come in yet waits in the backlog, until a tick.
void MetricsEndpoint::accept(std::uint64_t now_ns) {
  const bool is_overrun = door_.files().pending() >= Door::max_closing / 2;
  if (is_overrun || !accepts_.allow(now_ns)) return listen(false);
  UniqueFd socket(::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return is_passing(errno) ? void() : listen(false);
  if (clients_.size() >= max_connections) drop(clients_.begin()->first);
  const std::uint64_t number = next_number_++;
  poller_.add(socket.get(), tag_of_(number), EPOLLIN);
  Client& client = clients_[number];
  client.socket = std::move(socket);
  client.until_ns = now_ns + patience_ns;
}

void MetricsEndpoint::serve(std::uint64_t number, std::uint32_t events, std::uint64_t now_ns) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;  // dropped earlier in this round
  Client& client = found->second;
  bool goes_on = (events & (EPOLLIN | EPOLLOUT)) != 0;
  if (client.lingers)
    goes_on = goes_on && discard(&client);
  else if (client.head.empty())
    goes_on = goes_on && receive(&client, now_ns);
  else
    goes_on = goes_on && send(&client, now_ns);
  if (!goes_on) return drop(number);
  const bool sends = !client.head.empty() && !client.lingers;
  poller_.change(client.socket.get(), tag_of_(number), sends ? EPOLLOUT : EPOLLIN);
}

// Peeked at first: descriptors that come along on a Unix socket would be closed here, and that may take any
// time (received_files.h). -1 with EAGAIN for nothing; 0 at the end; any other error is one.
std::ptrdiff_t MetricsEndpoint::read_some(const Client& client, Chunk* chunk) const {
  iovec part{chunk->data(), chunk->size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  const ssize_t got = ::recvmsg(client.socket.get(), &header, MSG_PEEK | MSG_DONTWAIT);
  if (got <= 0) return got;
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    errno = EBADMSG;
    return -1;
  }
  return ::recv(client.socket.get(), chunk->data(), static_cast<std::size_t>(got), MSG_DONTWAIT);
}

// False when the connection is to end.
bool MetricsEndpoint::receive(Client* client, std::uint64_t now_ns) {
  Chunk chunk;
  const std::ptrdiff_t got = read_some(*client, &chunk);
  if (got < 0) return is_passing(errno);
  if (got == 0) return false;
  client->received.append(chunk.data(), static_cast<std::size_t>(got));
  const MetricsAnswer judged = judge_metrics_request(client->received);
  if (judged == MetricsAnswer::not_yet) return true;
  answer(client, judged, now_ns);
  return send(client, now_ns);
}

bool MetricsEndpoint::discard(Client* client) {
  Chunk chunk;
  const std::ptrdiff_t got = read_some(*client, &chunk);
  if (got < 0) return is_passing(errno);
  client->discarded += static_cast<std::size_t>(got);
  return got != 0 && client->discarded < most_discarded;
}

void MetricsEndpoint::answer(Client* client, MetricsAnswer answer, std::uint64_t now_ns) {
  client->received = {};
  const bool is_metrics = answer == MetricsAnswer::metrics || answer == MetricsAnswer::metrics_head;
  if (is_metrics && (text_ == nullptr || now_ns >= text_ns_ + fresh_ns)) {
    text_ = std::make_shared<const std::string>(render_());
    text_ns_ = now_ns;
  }
  client->head = metrics_answer_head(answer, is_metrics ? text_->size() : 0);
  if (answer == MetricsAnswer::metrics) client->body = text_;
}

bool MetricsEndpoint::send(Client* client, std::uint64_t now_ns) {
  const std::size_t body_bytes = client->body ? client->body->size() : 0;
  while (client->sent < client->head.size() + body_bytes) {
    const std::size_t of_head = std::min(client->sent, client->head.size());
    const std::size_t of_body = client->sent - of_head;
    std::array<iovec, 2> parts{iovec{client->head.data() + of_head, client->head.size() - of_head}, iovec{}};
    if (client->body) parts[1] = {const_cast<char*>(client->body->data()) + of_body, body_bytes - of_body};
    msghdr header{};
    header.msg_iov = parts.data();
    header.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(client->socket.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return is_passing(errno);
    client->sent += static_cast<std::size_t>(sent);
  }
  ::shutdown(client->socket.get(), SHUT_WR);
  client->lingers = true;
  client->body = nullptr;
  client->until_ns = std::min(client->until_ns, now_ns + linger_ns);
  return true;
}

void MetricsEndpoint::tick(std::uint64_t now_ns) {
  std::vector<std::uint64_t> late;
  for (const auto& [number, client] : clients_)
    if (now_ns >= client.until_ns) late.push_back(number);
  for (const std::uint64_t number : late) {
    Client& client = clients_.at(number);
    if (client.head.empty()) {
      answer(&client, MetricsAnswer::late, now_ns);
      send(&client, now_ns);
    }
    drop(number);
  }
  if (clients_.empty() && text_ != nullptr && now_ns >= text_ns_ + fresh_ns) text_ = nullptr;
  listen(true);
}

void MetricsEndpoint::drop(std::uint64_t number) {
  const auto found = clients_.find(number);
  UniqueFd socket = std::move(found->second.socket);
  clients_.erase(found);
  dispose(std::move(socket));
}

// Of a socket that is shut down. Reads away what comes before them, up to a bound.
bool MetricsEndpoint::may_bring_files(int socket) const {
  Chunk chunk;
  for (std::size_t read = 0; read < most_discarded; read += chunk.size()) {
    iovec part{chunk.data(), chunk.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    const ssize_t got = ::recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
    if (got <= 0) return false;
    if ((header.msg_flags & MSG_CTRUNC) != 0) return true;
    ::recv(socket, chunk.data(), static_cast<std::size_t>(got), MSG_DONTWAIT);
  }
  return true;
}

void MetricsEndpoint::dispose(UniqueFd socket) {
  poller_.remove(socket.get());
  ::shutdown(socket.get(), SHUT_RDWR);  // from here on nothing is queued in it
  if (!socket_.is_unix() || !may_bring_files(socket.get())) return;
  const auto peer = peer_of(socket.get());
  door_.files().close(peer ? peer->uid : 0, std::move(socket));
}

}  // namespace terrace::daemon
