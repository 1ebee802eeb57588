// One accepted socket: reads whole packets, never blocks, never queues more than a bound. A packet that
// brings descriptors is only looked at: received_files.h has the reason.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/refusal.h"
#include "daemon/base/unique_fd.h"
#include "daemon/control/long_answer.h"
#include "daemon/pools/pool_file.h"
#include "daemon/sessions/session.h"
#include "daemon/sockets/rate_limit.h"
#include "liballoc/wire/protocol.h"

namespace terrace::daemon {

struct Packet {
  static constexpr std::size_t largest = sizeof(wire::Header) + wire::max_control_bytes;
  alignas(16) std::byte bytes[largest];
  std::size_t size = 0;
  bool brings_files = false;  // then it is still in the socket, descriptors and all
};

class Connection {
 public:
  enum class Role { fresh, inspected, waiting, job, control };
  static constexpr std::size_t max_queued_bytes = 4 << 20;
  static constexpr std::size_t max_queued_packets = 256;

  Connection(UniqueFd socket, const Peer& peer, std::uint64_t accepted_ns)
      : socket_(std::move(socket)), peer_(peer), accepted_ns_(accepted_ns) {}

  int fd() const { return socket_.get(); }
  UniqueFd take_socket() { return std::move(socket_); }
  const Peer& peer() const { return peer_; }
  std::uint64_t accepted_ns() const { return accepted_ns_; }

  // One packet: 0; EAGAIN for none; EPIPE for the end; EMSGSIZE for one that is too long; any other errno.
  int receive(Packet* packet);

  // Sends or queues. 0; ENOBUFS when the other side does not read what it asked for; any other errno.
  // Descriptors go at once or not at all.
  int send(const void* bytes, std::size_t size, std::span<const int> fds = {});
  // A whole answer to a control request, in pieces, however long: 0; ENOBUFS when it has not read earlier
  // ones; any other errno.
  int answer(std::string_view text);
  int flush();
  // Tells the reason; what it returns is the line for the log.
  std::string refuse(const Refusal& refusal);
  bool has_queued() const { return !queue_.empty(); }

  Role role = Role::fresh;
  SessionId session = 0;
  UniqueFd process;  // pidfd of a job
  std::optional<wire::Hello>
      waiting;                   // a greeting held back until its pool is known or earlier jobs are back
  std::optional<PoolFile> pool;  // that came with it
  std::optional<wire::Period> period;  // whose file is looked at: a thread reads the socket, and nobody else
  std::optional<wire::NvmHeld> nvm;    // likewise
  RateLimit period_limit{1'000'000'000, 4};     // one a second
  std::uint32_t events = EPOLLIN | EPOLLRDHUP;  // that are watched for
  // A control request whose user has to wait, or its answer as far as it is written; nothing is read
  // meanwhile.
  std::unique_ptr<Packet> postponed;
  std::unique_ptr<LongAnswer> unfinished;
  bool waits_for_answer() const { return postponed || unfinished; }
  // Nobody but a thread that looks at what came reads the socket.
  bool is_inspected() const { return role == Role::inspected || period.has_value() || nvm.has_value(); }

 private:
  bool is_full() const { return queue_.size() >= max_queued_packets || queued_bytes_ > max_queued_bytes; }
  int send_or_queue(const void* bytes, std::size_t size, std::span<const int> fds, bool may_queue);

  UniqueFd socket_;
  Peer peer_;
  std::uint64_t accepted_ns_;
  std::deque<std::vector<std::byte>> queue_;
  std::size_t queued_bytes_ = 0;
};

// Who is at the other end; nothing if the kernel does not say.
std::optional<Peer> peer_of(int socket);
// A descriptor that becomes readable when the peer's process is gone; -1 if there is none.
int open_peer_process(int socket, pid_t pid);

}  // namespace terrace::daemon
