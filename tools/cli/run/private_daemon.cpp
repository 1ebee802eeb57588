#include "tools/cli/run/private_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tools/cli/base/budget.h"
#include "tools/cli/base/files.h"
#include "tools/cli/daemon/control_client.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> arguments_for(const PrivateDaemonRequest& request, const std::string& socket) {
  std::vector<std::string> arguments{request.program.string(), "--private", "--socket", socket};
  const auto add = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    arguments.emplace_back(option);
    arguments.push_back(value);
  };
  add("--dram", request.dram_bytes ? exact_size(*request.dram_bytes) : "");
  add("--pool", request.pool_directory);
  add("--pool-size", request.pool_bytes ? exact_size(*request.pool_bytes) : "");
  add("--writes-per-day", request.writes_per_day ? exact_size(*request.writes_per_day) : "");
  add("--log-level", request.log_level);
  return arguments;
}

// In the grandchild. Its log goes to a file beside the socket: holding the job's standard error open would
// keep a pipeline behind `terrace run` waiting for the daemon to end.
[[noreturn]] void become_daemon(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  dup2(null, STDIN_FILENO);
  dup2(file >= 0 ? file : null, STDOUT_FILENO);
  dup2(file >= 0 ? file : null, STDERR_FILENO);
  syscall(SYS_close_range, 3U, ~0U, 0U);
  unsetenv("LD_PRELOAD");
  execv(argv[0], argv.data());
  dprintf(STDERR_FILENO, "%s: %s\n", argv[0], std::strerror(errno));
  _exit(127);
}

// Forks twice, so that init adopts the daemon. Its pid, or -1.
pid_t spawn_detached(const std::vector<std::string>& arguments, const std::string& log) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return -1;
  const pid_t middle = fork();
  if (middle == 0) {
    setsid();
    const pid_t daemon = fork();
    if (daemon == 0) become_daemon(arguments, log);
    const bool reported = write(report[1], &daemon, sizeof daemon) == sizeof daemon;
    _exit(reported ? 0 : 1);
  }
  close(report[1]);
  pid_t daemon = -1;
  if (middle < 0 || read(report[0], &daemon, sizeof daemon) != sizeof daemon) daemon = -1;
  close(report[0]);
  if (middle > 0) waitpid(middle, nullptr, 0);
  return daemon;
}

bool answers(const std::string& socket) {
  auto client = ControlClient::connect(socket);
  return client && client->request({{"verb", "ping"}});
}

std::string last_line_of(const std::string& log) {
  const std::string text = trimmed(read_text(log).value_or(""));
  const std::size_t newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

// Polling: the daemon has no one to tell, and a job starts once.
Result<std::string> await_daemon(pid_t daemon, const std::string& socket, const std::string& log) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (std::chrono::steady_clock::now() < deadline) {
    if (answers(socket)) return ok(socket);
    if (kill(daemon, 0) != 0) {
      const std::string said = last_line_of(log);
      return refused<std::string>("it ended at once" + (said.empty() ? "" : ": " + said));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(daemon, SIGTERM);
  return refused<std::string>("it did not answer within 3 s; its log is " + log);
}

// Files of runs whose process is gone and whose daemon no longer listens.
void remove_abandoned_files(const fs::path& directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH) continue;
    if (!ControlClient::connect((directory / fmt::format("{}.sock", pid)).string()))
      fs::remove(entry, ignored);
  }
}

}  // namespace

Result<fs::path> make_private_directory(const fs::path& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return refused<fs::path>(fmt::format("cannot make {}: {}", directory.string(), std::strerror(errno)));
  if (is_private_directory(directory)) return ok(directory);
  return refused<fs::path>(
      fmt::format("{} must be a directory of yours that nobody else can enter (mode 0700); remove it or set "
                  "XDG_RUNTIME_DIR",
                  directory.string()));
}

Result<std::string> start_private_daemon(const PrivateDaemonRequest& request) {
  const auto directory = make_private_directory(private_directory());
  if (!directory) return refused<std::string>(directory.error);
  remove_abandoned_files(*directory);
  const std::string stem = (*directory / std::to_string(getpid())).string();
  const std::string socket = stem + ".sock";
  const std::string log = stem + ".log";
  const pid_t daemon = spawn_detached(arguments_for(request, socket), log);
  if (daemon < 0) return refused<std::string>(fmt::format("cannot start it: {}", std::strerror(errno)));
  return await_daemon(daemon, socket, log);
}

}  // namespace terrace::cli
