// Starting the job and standing in for it: signals go through, stopping and continuing too, and its end
// becomes ours, so that `terrace run` in a script or under a batch system behaves like the command itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/cgroup/cgroup.h"

namespace terrace::cli {

// Why the command did not start: errno of entering the cgroup or of exec.
struct StartFailure {
  int error = 0;
  bool entering_cgroup = false;
};

struct Outcome {
  int wait_status = 0;  // of waitpid(2)
  StartFailure failure;
  std::uint64_t wall_ns = 0;
  std::uint64_t peak_rss_bytes = 0;  // largest process of the job
};

// Replaces this process. Returns only on failure, with errno's value.
int execute(const std::vector<std::string>& command);

// Runs the command (in `cgroup`, unless nullptr) with this process's environment and waits for its end.
Outcome supervise(const std::vector<std::string>& command, const JobCgroup* cgroup);

// The shell's convention for a command that could not be started: 127 not found, 126 otherwise.
int exit_code_for_exec_error(int error);

// Ends this process as the job ended: same exit code, or the same signal.
[[noreturn]] void end_like(int wait_status);

}  // namespace terrace::cli
