#include "liballoc/agent/client/daemon_starter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "liballoc/agent/client/copy_path.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t between_attempts_ns = 500'000'000;  // back within 1 s, whenever it dies
constexpr std::size_t kernel_sigset_bytes = 8;
constexpr int signal_count = 64;

// Sanitizers keep accounts per stack and per thread; the children have a stack of their own in our thread.
#define TERRACE_BORROWED_STACK __attribute__((no_sanitize("address", "thread", "undefined")))

struct KernelSigaction {  // what rt_sigaction reads; all zero is SIG_DFL
  unsigned long handler = 0, flags = 0, restorer = 0, mask = 0;
};

struct Launch {
  const char* path;
  char* const* arguments;
  char* const* environment;
  std::byte* second_stack_top;
};

TERRACE_BORROWED_STACK std::uint64_t set_signal_mask(std::uint64_t mask) noexcept {
  std::uint64_t old = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &old, kernel_sigset_bytes);
  return old;
}

TERRACE_BORROWED_STACK void reset_signals() noexcept {
  const KernelSigaction standard;
  for (int signal = 1; signal <= signal_count; ++signal)
    ::syscall(SYS_rt_sigaction, signal, &standard, nullptr, kernel_sigset_bytes);
  set_signal_mask(0);
}

TERRACE_BORROWED_STACK void redirect_descriptors() noexcept {
  const int null_fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0));
  for (int fd = 0; fd <= 2; ++fd) ::syscall(SYS_dup2, null_fd, fd);
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
}

TERRACE_BORROWED_STACK int become_daemon(void* argument) noexcept {
  const Launch& launch = *static_cast<const Launch*>(argument);
  reset_signals();
  redirect_descriptors();
  ::syscall(SYS_chdir, "/");
  ::syscall(SYS_execve, launch.path, launch.arguments, launch.environment);
  ::syscall(SYS_exit_group, 127);
  return 127;
}

TERRACE_BORROWED_STACK int become_parent_of_daemon(void* argument) noexcept {
  Launch* launch = static_cast<Launch*>(argument);
  ::syscall(SYS_setsid);
  const int child = ::clone(become_daemon, launch->second_stack_top, CLONE_VM | CLONE_VFORK, launch);
  ::syscall(SYS_exit_group, child < 0 ? 1 : 0);
  return 1;
}

}  // namespace

bool DaemonStarter::configure(const char* socket, const char* daemon, const char* config) noexcept {
  return copy_path(socket_path_, sizeof socket_path_, socket, nullptr) &&
         copy_path(daemon_path_, sizeof daemon_path_, daemon, nullptr) &&
         copy_path(daemon_config_, sizeof daemon_config_, config != nullptr ? config : socket,
                   config != nullptr ? nullptr : ".toml");
}

bool DaemonStarter::daemon_holds_lock() const noexcept {
  char path[sizeof socket_path_ + 8] = {};
  const std::size_t length = std::strlen(socket_path_);
  std::memcpy(path, socket_path_, length);
  std::memcpy(path + length, ".lock", sizeof ".lock");
  const int fd = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

void DaemonStarter::start(std::uint64_t now_ns) noexcept {
  if (daemon_path_[0] != '/' || now_ns < next_start_ns_) return;
  next_start_ns_ = now_ns + between_attempts_ns;
  if (daemon_holds_lock()) return;  // it is starting, or stopped: no second one
  static char flag_private[] = "--private", flag_respawned[] = "--respawned", flag_socket[] = "--socket",
              flag_config[] = "--config", path_variable[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  const bool configured = ::access(daemon_config_, R_OK) == 0;
  char* const arguments[] = {daemon_path_,   flag_private, flag_respawned,
                             flag_socket,    socket_path_, configured ? flag_config : nullptr,
                             daemon_config_, nullptr};
  char* const environment[] = {path_variable, nullptr};
  Launch launch{daemon_path_, arguments, environment, child_stacks_[1] + sizeof child_stacks_[1]};
  const std::uint64_t mask = set_signal_mask(~std::uint64_t{0});
  const int child = ::clone(become_parent_of_daemon, child_stacks_[0] + sizeof child_stacks_[0],
                            CLONE_VM | CLONE_VFORK, &launch);
  while (child > 0 && ::wait4(child, nullptr, __WALL, nullptr) < 0 && errno == EINTR) {
  }
  set_signal_mask(mask);
}

}  // namespace terrace::liballoc
