// The connection itself: connect, greet, read, lose, connect again. What lies in shared memory is areas.h,
// what packets mean is messages.cpp, starting a daemon is daemon_starter.h; client.h has the picture.
//
// Every call here is one system call deep: glibc's thin wrappers, which take no lock. Descriptors are moved
// out of the low numbers, because programs (and their tests) expect the next free one to be theirs, and the
// socket is checked before use, because programs close descriptors that they did not open
// (own_descriptors.h).
#include "liballoc/agent/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "liballoc/agent/client/copy_path.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;
constexpr std::uint64_t answer_ns = 2000 * millisecond;
constexpr std::uint64_t retry_ns = 100 * millisecond;
constexpr std::uint64_t retry_refused_ns = 5000 * millisecond;

std::uint64_t clock_ns() noexcept {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

template <class Message>
int send_message(int socket, const Message& message, int fd = -1) noexcept {
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  for (;;) {
    if (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

int Client::copy_config(const ClientConfig& config) noexcept {
  if (config.socket_path == nullptr || config.socket_path[0] == '\0') return EINVAL;
  if (!copy_path(socket_path_, sizeof socket_path_, config.socket_path, nullptr)) return EINVAL;
  if (!starter_.configure(socket_path_, config.daemon_path, config.daemon_config)) return EINVAL;
  wire::copy_text(job_, sizeof job_, config.job);
  wire::copy_text(program_, sizeof program_, config.program);
  respawn_ = config.respawn;
  is_engine_ = config.is_engine;
  gpu_bytes_ = config.gpu_bytes;
  requested_budget_bytes_ = config.requested_budget_bytes;
  pool_wanted_bytes_ = config.pool_wanted_bytes;
  weight_ = config.weight;
  wants_tiers_ = config.wants_tiers;
  return 0;
}

int Client::start(const ClientConfig& config) noexcept {
  if (state_ != State::idle) return EALREADY;
  if (const int error = copy_config(config); error != 0) return error;
  if (const int error = areas_.reserve(); error != 0) return error;
  state_ = State::disconnected;
  const std::uint64_t deadline_ns = clock_ns() + answer_ns;
  if (const int error = connect_before(deadline_ns); error != 0) return error;
  return await_welcome(deadline_ns);
}

int Client::connect_before(std::uint64_t deadline_ns) noexcept {
  for (;;) {
    const int error = connect_socket();
    if (error != EAGAIN && error != EINTR) return error != 0 ? error : send_hello();
    if (clock_ns() >= deadline_ns) return ETIMEDOUT;
    ::poll(nullptr, 0, 10);  // the daemon's backlog is full
  }
}

int Client::connect_socket() noexcept {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path_, sizeof socket_path_);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    return error;
  }
  socket_ = keep_descriptor(fd, Descriptor::replaceable);
  state_ = State::greeting;
  refused_ = awaits_tiers_ = false;
  return 0;
}

int Client::send_hello() noexcept {
  wire::Hello hello = wire::make<wire::Hello>();
  std::memcpy(hello.job, job_, sizeof job_);
  std::memcpy(hello.program, program_, sizeof program_);
  hello.requested_budget_bytes = requested_budget_bytes_;
  hello.pool_wanted_bytes = pool_wanted_bytes_;
  hello.weight = weight_;
  if (is_engine_) hello.flags |= wire::hello_is_engine;
  if (gpu_bytes_ != 0) {
    hello.flags |= wire::hello_is_gpu_heap;
    hello.pool_capacity_bytes = gpu_bytes_;
  }
  if (wants_tiers_ && !was_welcomed_) hello.features |= wire::feature_tiers;
  if (was_welcomed_) {
    hello.flags |= wire::hello_reattach;
    hello.held_budget_bytes = grant_.budget_bytes;
  }
  if (grant_.pool_fd >= 0) {
    hello.flags |= wire::hello_has_pool_fd;
    hello.pool_capacity_bytes = grant_.pool_capacity_bytes;
    hello.pool_used_bytes = stats()->get(wire::Stat::pool_used_bytes);
  }
  const int error = send_message(socket_, hello, grant_.pool_fd);
  if (error != 0) close_socket();
  return error;
}

int Client::await_welcome(std::uint64_t deadline_ns) noexcept {
  for (;;) {
    Notice notice = Notice::nothing;
    const int error = read_message(&notice);
    if (error == 0) return 0;
    if (error != EAGAIN) {
      close_socket();
      return error;
    }
    const std::uint64_t now = clock_ns();
    if (now >= deadline_ns) break;
    pollfd waiting{socket_, POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>((deadline_ns - now) / millisecond) + 1);
  }
  close_socket();
  return ETIMEDOUT;
}

Notice Client::step(std::uint64_t now_ns) noexcept {
  drop_plan();
  if (socket_ >= 0 && !is_intact(socket_)) {
    close_kept(socket_);
    socket_ = -1;
  }
  switch (state_) {
    case State::idle:
      return Notice::nothing;
    case State::disconnected:
      return step_disconnected(now_ns);
    case State::greeting:
      return step_greeting(now_ns);
    case State::connected:
      return step_connected(now_ns);
  }
  return Notice::nothing;
}

Notice Client::step_disconnected(std::uint64_t now_ns) noexcept {
  if (now_ns < next_attempt_ns_) return Notice::nothing;
  next_attempt_ns_ = now_ns + retry_ns;
  const int error = connect_socket();
  if (error == 0) {
    deadline_ns_ = now_ns + answer_ns;
    send_hello();
  } else if (error == ENOENT || error == ECONNREFUSED) {
    if (respawn_) starter_.start(now_ns);
  }
  return Notice::nothing;
}

Notice Client::step_greeting(std::uint64_t now_ns) noexcept {
  Notice notice = Notice::nothing;
  const int error = socket_ < 0 ? EBADF : read_message(&notice);
  if (error == 0) {
    tell_nvm();
    return Notice::reconnected;
  }
  if (error != EAGAIN || now_ns >= deadline_ns_) close_socket();
  if (refused_) next_attempt_ns_ = now_ns + retry_refused_ns;
  return Notice::nothing;
}

// The next daemon promises no more NVM than is left beside that. A daemon that does not know it cannot count
// it, and one that does not read the first packet of a session is soon no daemon any more.
void Client::tell_nvm() noexcept {
  if (grant_.nvm_fd < 0 || !has_feature(wire::feature_nvm_held)) return;
  wire::NvmHeld held = wire::make<wire::NvmHeld>();
  held.capacity_bytes = grant_.nvm_capacity_bytes;
  held.used_bytes = stats()->get(wire::Stat::nvm_bytes);
  send_message(socket_, held, grant_.nvm_fd);
}

Notice Client::step_connected(std::uint64_t now_ns) noexcept {
  Notice notice = Notice::nothing;
  const int error = socket_ < 0 ? EBADF : read_message(&notice);
  if (error == 0) return notice;
  if (error == EAGAIN) return Notice::nothing;
  close_socket();
  next_attempt_ns_ = now_ns;
  return Notice::disconnected;
}

void Client::drop_plan() noexcept {
  close_kept(plan_.fd);
  plan_.fd = -1;
}

void Client::close_socket() noexcept {
  close_kept(socket_);
  socket_ = -1;
  if (state_ != State::idle) state_ = State::disconnected;
}

void Client::log(wire::Severity severity, const char* text) noexcept {
  if (state_ != State::connected || socket_ < 0) return;
  wire::Log message = wire::make<wire::Log>();
  message.severity = severity;
  wire::copy_text(message.text, sizeof message.text, text);
  send_message(socket_, message);
}

int Client::send_period(std::uint32_t phase, std::uint64_t hash, std::uint64_t image_bytes, int fd) noexcept {
  if (state_ != State::connected || socket_ < 0) return ENOTCONN;
  wire::Period message = wire::make<wire::Period>();
  message.phase = phase;
  message.period_hash = hash;
  message.image_bytes = image_bytes;
  return send_message(socket_, message, fd);
}

void Client::shutdown() noexcept {
  if (state_ == State::connected && socket_ >= 0) send_message(socket_, wire::make<wire::Goodbye>());
  drop_plan();
  close_socket();
  forget_grant();
  state_ = State::idle;
}

void Client::forget_grant() noexcept {
  close_kept(grant_.pool_fd);
  close_kept(grant_.nvm_fd);
  close_kept(grant_.uffd_device_fd);
  grant_ = Grant{};
  was_welcomed_ = refused_ = false;
  refused_text_[0] = '\0';
}

void Client::use_no_pool() noexcept {
  close_kept(grant_.pool_fd);
  grant_.pool_fd = -1;
  grant_.pool_capacity_bytes = grant_.pool_limit_bytes = 0;
  pool_wanted_bytes_ = 0;
}

void Client::after_fork_in_child() noexcept {
  areas_.detach();
  drop_plan();
  close_socket();
  close_kept(grant_.uffd_device_fd);
  grant_.uffd_device_fd = -1;
  state_ = State::idle;
}

}  // namespace terrace::liballoc
