// The processes of a job as the kernel has them, to stop them and let them go on. No daemon is asked: a job
// that stands still cannot find a daemon that came after it was stopped, and must be let go on all the same.
//
// Of the job are those that are in session with its daemon, and those whose environment said so when they
// started (TERRACE_JOB and TERRACE_SOCKET), those without large memory, too: jobs of two daemons may have one
// name. Each is held by a pidfd, so that its number cannot become another process's meanwhile.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "liballoc/wire/result.h"

namespace terrace::cli {

class JobProcess {
 public:
  // nullopt: there is none of that number.
  static std::optional<JobProcess> open(pid_t pid);
  JobProcess(JobProcess&& other) noexcept;
  JobProcess& operator=(JobProcess&& other) noexcept;
  ~JobProcess();

  pid_t pid() const { return pid_; }
  int send(int signal) const;  // 0 or errno
  // Whether no thread of it runs on: each is stopped, or waits in the kernel and will stop before it leaves
  // that.
  bool stands() const;

 private:
  JobProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  pid_t pid_ = 0;
  int pidfd_ = -1;
};

struct JobIdentity {
  uid_t uid = 0;
  std::string name;
  std::string socket;  // of its daemon; "": whichever that is
  std::vector<pid_t> in_session;
};

std::vector<JobProcess> processes_of(const JobIdentity& job);

// Sends SIGSTOP to all, also to those that come meanwhile, and waits until they stand; or says why not, and
// all go on.
Result<std::vector<JobProcess>> stop_processes(const JobIdentity& job);
// Sends SIGCONT. How many of them had stood.
std::size_t let_go_on(const std::vector<JobProcess>& processes);

// Why what a process has cannot be moved out of the way: "process 12 has libcuda.so in its memory", or "".
std::string gpu_of(const std::vector<JobProcess>& processes);

}  // namespace terrace::cli
