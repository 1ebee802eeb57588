// The daemon that a job of `terrace run` will talk to: the one that --socket names, else the machine's
// service, else a private one. What is asked for is held against what that daemon has left, before anything
// is started.
#pragma once

#include <string>

#include "tools/cli/base/install_layout.h"
#include "tools/cli/base/options.h"
#include "tools/cli/base/pool_list.h"
#include "tools/cli/run/run_plan.h"

namespace terrace::cli {

inline constexpr const char* default_pool_directory = "/var/tmp";

// What the job's library will talk to.
struct JobDaemon {
  std::string socket;   // empty: the library works alone
  std::string why_not;  // there is none, or the one that was named does not answer
  std::string program;  // of a private one: the library starts another with it when ours dies
};

struct FoundDaemon {
  std::string refusal;  // the job must not start, with exit code `code`; else
  int code = 0;
  std::string warning;      // the service's socket is there, and of no use
  JobDaemon daemon;         // that was named, or the service
  bool brings_own = false;  // there is none: a private one is to be brought
};

// Starts nothing. Whoever may not use the service that divides this machine is refused: a private daemon
// would promise the same memory a second time (docs/decisions/031). A socket where nobody answers divides
// nothing: one line says so, and the job gets a daemon of its own.
FoundDaemon find_daemon(const RunOptions& options, const std::string& service_socket);

// Why the request cannot be met: by the daemon at `socket`, which may have less left than the machine has, or
// by the disk where a pool would be made without one ("").
std::string refusal_of(const std::string& socket, const RunPlan& plan);

// A private one. `socket` is empty when none comes up.
JobDaemon bring_daemon(const RunOptions& options, const RunPlan& plan, const InstallLayout& layout);

// Where the job's pool will be.
PoolList pool_directories_of(const JobDaemon& daemon, const RunPlan& plan);

}  // namespace terrace::cli
