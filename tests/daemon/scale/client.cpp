// See client.h.
#include "tests/daemon/scale/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace terrace::tests::scale {
namespace {

constexpr int patience_ms = 10'000;

// Of this thread only, unlike glibc's seteuid().
void be_user(uid_t uid) { ::syscall(SYS_setresuid, -1, uid, -1); }

wire::Hello hello_of(const std::string& job, std::uint64_t pool_wanted_bytes) {
  wire::Hello hello = wire::make<wire::Hello>();
  wire::copy_text(hello.job, sizeof hello.job, job.c_str());
  wire::copy_text(hello.program, sizeof hello.program, "scale");
  hello.pool_wanted_bytes = pool_wanted_bytes;
  return hello;
}

// The welcome and its first descriptor, which is the segment's; the others are closed.
bool receive_welcome(int socket, wire::Welcome* welcome, Fd* segment) {
  pollfd waiting{socket, POLLIN, 0};
  if (::poll(&waiting, 1, patience_ms) <= 0) return false;
  std::array<char, 1024> packet;
  iovec part{packet.data(), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * wire::max_fds)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (got != sizeof *welcome || rights == nullptr) return false;
  std::array<Fd, wire::max_fds> fds;
  for (std::size_t i = 0; i < (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
    fds[i].reset(fd);
  }
  *segment = std::move(fds[0]);
  *welcome = wire::read_as<wire::Welcome>(packet.data());
  return welcome->header.type == wire::Type::welcome;
}

}  // namespace

std::uint64_t clock_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

Fd connect_as(uid_t uid, const std::string& path) {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof address.sun_path - 1));
  be_user(uid);
  const int failed = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  be_user(0);
  errno = error;
  return failed == 0 ? std::move(fd) : Fd();
}

bool send_packet(int socket, const void* bytes, std::size_t size, int flags) {
  return ::send(socket, bytes, size, MSG_NOSIGNAL | flags) == static_cast<ssize_t>(size);
}

bool send_request(int socket, const std::string& json) {
  wire::Header header;
  header.type = wire::Type::control;
  header.length = static_cast<std::uint32_t>(json.size());
  std::string packet(reinterpret_cast<const char*>(&header), sizeof header);
  packet += json;
  return send_packet(socket, packet.data(), packet.size(), MSG_DONTWAIT);
}

JobSegment::JobSegment(const wire::Welcome& welcome, int fd) {
  void* base = ::mmap(nullptr, welcome.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return;
  mapping_ = std::unique_ptr<char, Unmap>(static_cast<char*>(base), Unmap{welcome.segment_bytes});
  stats_offset_ = welcome.stats_offset;
  auto* ring = reinterpret_cast<wire::EventRing*>(mapping_.get() + welcome.ring_offset);
  writer_ = wire::RingWriter(ring, wire::slots_of(ring), welcome.ring_capacity);
}

std::optional<Joined> join(const std::string& path, uid_t uid, const std::string& job, bool map,
                           std::uint64_t pool_wanted_bytes) {
  Joined joined{connect_as(uid, path), {}, {}};
  const wire::Hello hello = hello_of(job, pool_wanted_bytes);
  Fd segment;
  if (!joined.socket || !send_packet(joined.socket.get(), &hello, sizeof hello) ||
      !receive_welcome(joined.socket.get(), &joined.welcome, &segment))
    return std::nullopt;
  if (map) joined.segment = JobSegment(joined.welcome, segment.get());
  if (map && !joined.segment.is_mapped()) return std::nullopt;
  return joined;
}

}  // namespace terrace::tests::scale
