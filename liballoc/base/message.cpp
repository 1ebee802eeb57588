#include "liballoc/base/message.h"

#include <poll.h>
#include <signal.h>

#include <cstring>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

Severity log_level = Severity::warning;

const char* errno_name(int value) {
  switch (value) {
    case EPERM:
      return "EPERM";
    case ENOENT:
      return "ENOENT";
    case EIO:
      return "EIO";
    case EBADF:
      return "EBADF";
    case EAGAIN:
      return "EAGAIN";
    case ENOMEM:
      return "ENOMEM";
    case EACCES:
      return "EACCES";
    case EBUSY:
      return "EBUSY";
    case EEXIST:
      return "EEXIST";
    case ENODEV:
      return "ENODEV";
    case ENOTDIR:
      return "ENOTDIR";
    case EINVAL:
      return "EINVAL";
    case EMFILE:
      return "EMFILE";
    case EFBIG:
      return "EFBIG";
    case ENOSPC:
      return "ENOSPC";
    case EROFS:
      return "EROFS";
    case ENOSYS:
      return "ENOSYS";
    case ENOTSUP:
      return "ENOTSUP";
    case ETIMEDOUT:
      return "ETIMEDOUT";
    case ECONNREFUSED:
      return "ECONNREFUSED";
    default:
      return "see errno(3)";
  }
}

// Room for a line on standard error. A warning that nobody reads is not worth a stop of those who wait for
// memory; a loss is waited with for a while.
bool has_room(Severity severity) {
  constexpr timespec at_once{0, 0};
  constexpr timespec a_while{1, 0};
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  const timespec limit = severity == Severity::error ? a_while : at_once;
  return syscall(SYS_ppoll, &out, 1, &limit, nullptr, 0) > 0 && (out.revents & POLLOUT) != 0;
}

// To a pipe whose reader has gone: the signal would end the program for a line of ours.
void write_without_signal(const char* text, std::size_t bytes) {
  constexpr std::uint64_t broken_pipe = 1ULL << (SIGPIPE - 1);
  std::uint64_t before = 0;
  std::uint64_t pending = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &broken_pipe, &before, sizeof(before));
  syscall(SYS_rt_sigpending, &pending, sizeof(pending));
  const long written = syscall(SYS_write, STDERR_FILENO, text, bytes);
  constexpr timespec at_once{0, 0};
  if (written < 0 && errno == EPIPE && (pending & broken_pipe) == 0)
    syscall(SYS_rt_sigtimedwait, &broken_pipe, nullptr, &at_once, sizeof(broken_pipe));
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
}

}  // namespace

void set_log_level(Severity level) { log_level = level; }

Message::Message(Severity severity) : severity_(severity) {
  *this << "terrace: ";
  if (severity == Severity::error) *this << "error: ";
}

Message::~Message() {
  if (severity_ > log_level) return;
  text_[used_++] = '\n';
  if (has_room(severity_)) write_without_signal(text_, used_);
}

void Message::put(char c) {
  if (used_ < sizeof(text_) - 1) text_[used_++] = c;
}

Message& Message::operator<<(const char* text) {
  for (; *text != '\0'; ++text) put(*text);
  return *this;
}

Message& Message::operator<<(std::uint64_t value) {
  char digits[20];
  unsigned n = 0;
  do {
    digits[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (n > 0) put(digits[--n]);
  return *this;
}

Message& Message::operator<<(const void* address) {
  *this << "0x";
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  for (int shift = 44; shift >= 0; shift -= 4) put("0123456789abcdef"[(value >> shift) & 15U]);
  return *this;
}

Message& Message::error(int errno_value) {
  return *this << "errno " << static_cast<std::uint64_t>(errno_value) << " (" << errno_name(errno_value)
               << ")";
}

Message& Message::bytes(std::uint64_t value) {
  static constexpr const char* units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  unsigned unit = 0;
  std::uint64_t rest = 0;  // in 1024ths of the unit
  for (; value >= 1024 && unit < 4; ++unit) {
    rest = value % 1024;
    value /= 1024;
  }
  *this << value;
  if (unit > 0) *this << "." << rest * 10 / 1024;
  return *this << units[unit];
}

}  // namespace terrace::liballoc
