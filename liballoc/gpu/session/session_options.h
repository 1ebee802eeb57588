// Which daemon an engine or a GPU heap joins, and as which job: what the preload library reads for its pager
// (docs/environment.md), so that both are of one job.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::liballoc::gpu {

struct SessionOptions {
  std::string socket;  // empty: none is to be joined
  std::string job;     // the program's name, where the environment says none
  std::string daemon;  // the program of a private daemon, to start it again; empty: it is not the job's own
  std::uint64_t dram_bytes = 0;  // the job's budget; 0: whatever it gets
  std::uint16_t weight = 0;      // of the job among its user's; 0: nothing is said of it
};

// Of a program that has more privileges than its caller nothing is read. 0, or EINVAL with *reason naming the
// variable, what it says and what is accepted.
int read_session_options(SessionOptions* out, std::string* reason);

}  // namespace terrace::liballoc::gpu
