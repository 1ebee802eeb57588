// The exit codes of the command, documented in terrace(1). Scripts depend on them: a number is never reused.
#pragma once

#include <cstdio>
#include <string>

namespace terrace::cli {

enum ExitCode : int {
  exit_ok = 0,
  exit_failure = 1,
  exit_usage = 2,
  exit_no_daemon = 3,
  exit_permission = 4,
  exit_not_found = 5,
  exit_degraded = 6,
  exit_cannot_execute = 126,  // `run`: as every shell says it
  exit_no_command = 127,
  exit_signalled = 128,  // plus the signal's number: ended by it, with the best so far kept (`plan`)
};

// Prints "terrace: message" on standard error and gives the code back.
inline int complain(int exit_code, const std::string& message) {
  std::fprintf(stderr, "terrace: %s\n", message.c_str());
  return exit_code;
}

}  // namespace terrace::cli
