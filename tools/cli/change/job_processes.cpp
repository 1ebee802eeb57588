#include "tools/cli/change/job_processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "tools/cli/base/files.h"
#include "tools/cli/daemon/control_client.h"

namespace terrace::cli {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto standing_patience = 3s;  // for a thread to stand: one that waits for a drive may take as long
constexpr int most_stopping_rounds = 64;

fs::path proc_file(pid_t pid, const char* file) { return fmt::format("/proc/{}/{}", pid, file); }

// Files of /proc have no size, and a map of memory may be longer than read_text() takes.
std::string whole_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The words of what /proc separates by zeros.
std::vector<std::string> zero_ended_words(const fs::path& path) {
  const std::string text = whole_text(path);
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    words.emplace_back(text.c_str() + at);
    at += words.back().size() + 1;
  }
  return words;
}

// What it was started as. A program that was started by hand under the library has the name of its file.
struct Start {
  std::string job;
  std::string socket = system_socket;
};

Start start_of(pid_t pid) {
  constexpr std::string_view job = "TERRACE_JOB=", socket = "TERRACE_SOCKET=", preload = "LD_PRELOAD=";
  Start start;
  bool has_library = false;
  for (const std::string& word : zero_ended_words(proc_file(pid, "environ"))) {
    if (word.starts_with(job)) start.job = word.substr(job.size());
    if (word.starts_with(socket) && word.size() > socket.size()) start.socket = word.substr(socket.size());
    has_library = has_library || (word.starts_with(preload) && word.find("libterrace") != word.npos);
  }
  if (!start.job.empty() || !has_library) return start;
  const auto words = zero_ended_words(proc_file(pid, "cmdline"));
  if (!words.empty()) start.job = fs::path(words.front()).filename().string();
  return start;
}

// `terrace` and `terraced` may have inherited the variable of the job they were started for.
bool is_ours(pid_t pid) {
  std::error_code ignored;
  const std::string program = fs::read_symlink(proc_file(pid, "exe"), ignored).filename().string();
  return program == "terrace" || program == "terraced";
}

bool belongs_to(pid_t pid, uid_t uid) {
  struct stat found {};
  return stat(fmt::format("/proc/{}", pid).c_str(), &found) == 0 && found.st_uid == uid;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc{} && *end == '\0') pids.push_back(pid);
  }
  return pids;
}

bool is_of(const JobIdentity& job, pid_t pid) {
  if (pid == getpid() || !belongs_to(pid, job.uid) || is_ours(pid)) return false;
  if (std::find(job.in_session.begin(), job.in_session.end(), pid) != job.in_session.end()) return true;
  const Start start = start_of(pid);
  return start.job == job.name && (job.socket.empty() || start.socket == job.socket);
}

// 'R', 'S', 'D', 'T', …; what stands before it in the line is a name that may hold anything.
char state_in(const fs::path& stat_file) {
  const std::string text = whole_text(stat_file);
  const std::size_t end = text.rfind(')');
  return end != text.npos && end + 2 < text.size() ? text[end + 2] : 'X';
}

bool all_stand(const std::vector<JobProcess>& processes) {
  return std::all_of(processes.begin(), processes.end(), [](const JobProcess& p) { return p.stands(); });
}

bool wait_until_all_stand(const std::vector<JobProcess>& processes) {
  const auto end = std::chrono::steady_clock::now() + standing_patience;
  while (!all_stand(processes)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

Result<std::vector<JobProcess>> not_stopped(const std::vector<JobProcess>& processes, std::string why) {
  let_go_on(processes);
  return refused<std::vector<JobProcess>>(std::move(why));
}

}  // namespace

std::optional<JobProcess> JobProcess::open(pid_t pid) {
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0U));
  return pidfd < 0 ? std::nullopt : std::optional(JobProcess(pid, pidfd));
}

JobProcess::JobProcess(JobProcess&& other) noexcept
    : pid_(other.pid_), pidfd_(std::exchange(other.pidfd_, -1)) {}

JobProcess& JobProcess::operator=(JobProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  return *this;
}

JobProcess::~JobProcess() {
  if (pidfd_ >= 0) close(pidfd_);
}

int JobProcess::send(int signal) const {
  return syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0U) == 0 ? 0 : errno;
}

// A thread that waits in the kernel for a page of its own heap waits for a thread that is stopped: it stays
// there until that goes on.
bool JobProcess::stands() const {
  std::error_code ignored;
  for (const auto& thread : fs::directory_iterator(proc_file(pid_, "task"), ignored))
    if (std::strchr("RS", state_in(thread.path() / "stat")) != nullptr) return false;
  return true;
}

// The number is looked at again once it is held: it may have passed to another process in between.
std::vector<JobProcess> processes_of(const JobIdentity& job) {
  std::vector<JobProcess> found;
  for (const pid_t pid : all_pids()) {
    if (!is_of(job, pid)) continue;
    auto process = JobProcess::open(pid);
    if (process && is_of(job, pid)) found.push_back(std::move(*process));
  }
  return found;
}

// A process may fork until it is stopped, so that the search goes on until it finds nobody who is not.
Result<std::vector<JobProcess>> stop_processes(const JobIdentity& job) {
  std::vector<JobProcess> processes;
  std::set<pid_t> told;
  for (int round = 0; round < most_stopping_rounds; ++round) {
    processes = processes_of(job);
    if (processes.empty())
      return refused<std::vector<JobProcess>>("no process of the job can be seen from here");
    const std::size_t told_before = told.size();
    for (const JobProcess& process : processes) {
      if (!told.insert(process.pid()).second) continue;
      if (const int error = process.send(SIGSTOP); error != 0 && error != ESRCH)
        return not_stopped(
            processes, fmt::format("process {} cannot be stopped: {}", process.pid(), std::strerror(error)));
    }
    if (told.size() == told_before) return ok(std::move(processes));
    if (!wait_until_all_stand(processes))
      return not_stopped(processes, "a process of the job does not stop within 3 s");
  }
  return not_stopped(processes, "the job starts processes faster than they can be stopped");
}

std::size_t let_go_on(const std::vector<JobProcess>& processes) {
  std::size_t count = 0;
  for (const JobProcess& process : processes) {
    const bool stood = process.stands();
    if (process.send(SIGCONT) == 0 && stood) ++count;
  }
  return count;
}

// The emulated GPU's heap is a GPU's as well. The library of the offload engine and the optimizers is no sign
// of one: it loads, and works on CPU tensors, without.
std::string gpu_of(const std::vector<JobProcess>& processes) {
  for (const JobProcess& process : processes) {
    const std::string maps = whole_text(proc_file(process.pid(), "maps"));
    for (const char* sign : {"/dev/nvidia", "/libcuda.so", "/libterrace_gpu_preload"})
      if (maps.find(sign) != maps.npos)
        return fmt::format("process {} has {} in its memory", process.pid(), sign + 1);
  }
  return "";
}

}  // namespace terrace::cli
