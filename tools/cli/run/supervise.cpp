#include "tools/cli/run/supervise.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/cgroup/limit_watch.h"

namespace terrace::cli {

using namespace std::chrono_literals;

namespace {

constexpr std::array forwarded{SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                               SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

sigset_t signals_to_watch() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : forwarded) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  return set;
}

// What the terminal sends reaches every process of the foreground group, the job included, and carries
// SI_KERNEL: passing it on would interrupt the job twice. SIGCONT is the exception: a job stopped by itself
// may have missed the group's.
bool should_forward(const siginfo_t& info) { return info.si_signo == SIGCONT || info.si_code <= 0; }

[[noreturn]] void become_job(const std::vector<std::string>& command, const JobCgroup* cgroup,
                             const sigset_t& original, int report) {
  StartFailure failure{cgroup != nullptr ? cgroup->attach_self() : 0, true};
  sigprocmask(SIG_SETMASK, &original, nullptr);
  if (failure.error == 0) failure = {execute(command), false};
  const bool told = write(report, &failure, sizeof failure) == sizeof failure;
  _exit(told ? exit_code_for_exec_error(failure.error) : exit_cannot_execute);
}

// ^Z, or touching the terminal from the background. Not SIGSTOP: whoever stops the job from outside continues
// it from outside too, and would not know to wake us.
bool stopped_by_terminal(int status) {
  if (!WIFSTOPPED(status)) return false;
  const int signal = WSTOPSIG(status);
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

// True when the job has ended. Job control that stops the job stops us too: the shell sees one job, not two.
bool job_ended(pid_t job, Outcome* outcome) {
  rusage usage{};
  int status = 0;
  while (wait4(job, &status, WNOHANG | WUNTRACED, &usage) == job) {
    if (stopped_by_terminal(status)) {
      raise(SIGSTOP);
      kill(job, SIGCONT);
    }
    if (WIFSTOPPED(status)) continue;
    outcome->wait_status = status;
    outcome->peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    return true;
  }
  return false;
}

timespec to_timespec(std::chrono::nanoseconds time) { return {time / 1s, (time % 1s).count()}; }

// -1: none came while the watch slept.
int next_signal(const sigset_t& watched, const LimitWatch& watch, siginfo_t* info) {
  if (!watch.is_wanted()) return sigwaitinfo(&watched, info);
  const timespec pause = to_timespec(LimitWatch::pause);
  return sigtimedwait(&watched, info, &pause);
}

void look_at_limit(LimitWatch* watch) {
  if (!watch->is_wanted() || !watch->look(LimitWatch::Clock::now())) return;
  complain(exit_ok,
           "the job waits for memory at its limit, and none of its memory can leave DRAM: the kernel may end "
           "the job now; raise --limit, or put less into memory that is not from malloc");
}

void pass_signals_until_end(pid_t job, const sigset_t& watched, LimitWatch* watch, Outcome* outcome) {
  while (!job_ended(job, outcome)) {
    siginfo_t info{};
    const int signal = next_signal(watched, *watch, &info);
    look_at_limit(watch);
    if (signal > 0 && signal != SIGCHLD && should_forward(info)) kill(job, signal);
  }
}

// The pipe closes by itself when the exec succeeds.
StartFailure start_failure(int report) {
  StartFailure failure;
  ssize_t got = 0;
  do {
    got = read(report, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  return got == sizeof failure ? failure : StartFailure{};
}

}  // namespace

int execute(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return errno;
}

Outcome supervise(const std::vector<std::string>& command, const JobCgroup* cgroup) {
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  const sigset_t watched = signals_to_watch();
  sigset_t original;
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return {0, {errno, false}, 0, 0};
  signal(SIGCHLD, SIG_DFL);  // inherited as ignored, it would hide the job's end
  sigprocmask(SIG_BLOCK, &watched, &original);
  const pid_t job = fork();
  if (job == 0) become_job(command, cgroup, original, report[1]);
  close(report[1]);
  outcome.failure = job < 0 ? StartFailure{errno, false} : start_failure(report[0]);
  close(report[0]);
  LimitWatch watch(cgroup);
  if (job > 0) pass_signals_until_end(job, watched, &watch, &outcome);
  sigprocmask(SIG_SETMASK, &original, nullptr);
  outcome.wall_ns =
      static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
  return outcome;
}

int exit_code_for_exec_error(int error) { return error == ENOENT ? exit_no_command : exit_cannot_execute; }

void end_like(int wait_status) {
  if (!WIFSIGNALED(wait_status)) _exit(WEXITSTATUS(wait_status));
  const int fatal = WTERMSIG(wait_status);
  // The job's core dump is the one that matters; ours would overwrite it.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(fatal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, fatal);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(fatal);
  _exit(128 + fatal);
}

}  // namespace terrace::cli
