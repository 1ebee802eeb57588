// See connection.h.
#include "daemon/sockets/connection.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

namespace terrace::daemon {
namespace {

#ifdef SO_PEERPIDFD
constexpr int peer_pidfd_option = SO_PEERPIDFD;
#else
constexpr int peer_pidfd_option = 77;  // Linux 6.5; Debian 12's headers are of 6.1
#endif

int send_packet(int socket, const void* bytes, std::size_t size, std::span<const int> fds) {
  iovec part{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * wire::max_fds)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

// Without room for control messages MSG_CTRUNC says that there are some; peeking leaves them in the socket.
int Connection::receive(Packet* packet) {
  iovec part{packet->bytes, sizeof packet->bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  const ssize_t got = ::recvmsg(socket_.get(), &header, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno == EINTR || errno == EWOULDBLOCK ? EAGAIN : errno;
  packet->size = static_cast<std::size_t>(got);
  packet->brings_files = (header.msg_flags & MSG_CTRUNC) != 0;
  if ((header.msg_flags & MSG_TRUNC) != 0) return EMSGSIZE;
  if (got == 0) return EPIPE;
  if (!packet->brings_files) ::recv(socket_.get(), nullptr, 0, MSG_DONTWAIT);
  return 0;
}

int Connection::send_or_queue(const void* bytes, std::size_t size, std::span<const int> fds, bool may_queue) {
  if (queue_.empty()) {
    const int error = send_packet(socket_.get(), bytes, size, fds);
    if (error != EAGAIN) return error;
  }
  if (!fds.empty() || !may_queue) return ENOBUFS;
  const auto* first = static_cast<const std::byte*>(bytes);
  queue_.emplace_back(first, first + size);
  queued_bytes_ += size;
  return 0;
}

int Connection::send(const void* bytes, std::size_t size, std::span<const int> fds) {
  return send_or_queue(bytes, size, fds, !is_full());
}

int Connection::answer(std::string_view text) {
  if (is_full()) return ENOBUFS;
  std::size_t offset = 0;
  do {
    const std::string_view piece = text.substr(offset, wire::max_reply_piece);
    offset += piece.size();
    wire::Reply head = wire::make<wire::Reply>();
    head.header.length =
        static_cast<std::uint32_t>(sizeof(wire::Reply) - sizeof(wire::Header) + piece.size());
    head.flags = offset < text.size() ? wire::reply_more : 0;
    std::vector<char> packet(sizeof head + piece.size());
    std::memcpy(packet.data(), &head, sizeof head);
    std::memcpy(packet.data() + sizeof head, piece.data(), piece.size());
    if (const int error = send_or_queue(packet.data(), packet.size(), {}, true); error != 0) return error;
  } while (offset < text.size());
  return 0;
}

int Connection::flush() {
  while (!queue_.empty()) {
    const int error = send_packet(socket_.get(), queue_.front().data(), queue_.front().size(), {});
    if (error == EAGAIN) return 0;
    if (error != 0) return error;
    queued_bytes_ -= queue_.front().size();
    queue_.pop_front();
  }
  return 0;
}

std::string Connection::refuse(const Refusal& refusal) {
  wire::Refused message = wire::make<wire::Refused>();
  message.error = refusal.error;
  message.available_bytes = refusal.available_bytes;
  wire::copy_text(message.text, sizeof message.text, refusal.reason.c_str());
  send(&message, sizeof message);
  return "refused: " + refusal.reason;
}

std::optional<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  return Peer{credentials.pid, credentials.uid, credentials.gid};
}

int open_peer_process(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, peer_pidfd_option, &fd, &length) == 0) return fd;
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U));
}

}  // namespace terrace::daemon
