// Starting a private daemon from inside a program that must not notice.
//
// fork() is out: it would copy the page tables of a huge process, run its atfork handlers, and hand it a
// child that its wait() reports. Instead, clone(CLONE_VM | CLONE_VFORK) without an exit signal, twice: the
// program never has a child that it could see, and the daemon belongs to init.
//
//   agent ──clone──▶ child: setsid ──clone──▶ grandchild: signals, descriptors, execve(terraced)
//     └─ waits (__WALL) ◀── exits ◀─────────────┘ runs on by itself
//
// Both children borrow our memory until they exec or exit, so they run on stacks of their own with
// every signal blocked, and make nothing but system calls. Several jobs may see the daemon die at
// once: the daemon holds a lock on "<socket>.lock" for its life and a second one leaves again, so a
// race here costs one short process.
//
// The agent's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::liballoc {

class DaemonStarter {
 public:
  // What to start, and where it listens; the strings are copied. `config` nullptr: "<socket>.toml", which a
  // private daemon leaves there. Nothing is ever started but for an absolute `daemon`. False: a path is too
  // long.
  bool configure(const char* socket, const char* daemon, const char* config) noexcept;
  // Starts a daemon, unless one is starting or was started just now.
  void start(std::uint64_t now_ns) noexcept;

 private:
  bool daemon_holds_lock() const noexcept;

  char socket_path_[108] = {};
  char daemon_path_[1024] = {};
  char daemon_config_[1024] = {};
  std::uint64_t next_start_ns_ = 0;
  alignas(16) std::byte child_stacks_[2][8192] = {};
};

}  // namespace terrace::liballoc
