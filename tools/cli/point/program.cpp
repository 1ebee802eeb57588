// Whether a point of a budget curve is for the program that a command starts. A job's program is known by the
// name that it was started with, which is what its library tells the daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/cli/point/point.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

// Programs whose profession it is to start another one, which may be the one that was recorded.
constexpr std::array starters{
    "ash",     "bash",    "busybox",  "chrt",     "cpulimit", "dash",    "env",         "fish",    "flock",
    "gdb",     "ionice",  "ksh",      "make",     "mpiexec",  "mpirun",  "nice",        "nohup",   "nsys",
    "numactl", "orterun", "parallel", "perf",     "prlimit",  "prterun", "script",      "setarch", "setpriv",
    "setsid",  "sh",      "srun",     "stdbuf",   "strace",   "sudo",    "systemd-run", "taskset", "tini",
    "time",    "timeout", "unshare",  "valgrind", "watch",    "xargs",   "zsh"};

// As execvp(3) finds it, links followed; empty: nowhere.
fs::path found_program(const std::string& name) {
  std::error_code failed;
  if (name.find('/') != std::string::npos) {
    fs::path path = fs::canonical(name, failed);
    return failed ? fs::path() : path;
  }
  const char* const path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const fs::path candidate = fs::path(directory.empty() ? "." : directory) / name;
    if (access(candidate.c_str(), X_OK) != 0 || !fs::is_regular_file(candidate, failed)) continue;
    fs::path real = fs::canonical(candidate, failed);
    if (!failed) return real;
  }
  return {};
}

// A script's program is its interpreter, and what that starts.
bool is_binary(const fs::path& path) {
  std::array<char, 4> magic{};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic.data(), magic.size()) && magic == std::array{'\x7f', 'E', 'L', 'F'};
}

bool starts_others(const std::string& name) {
  return std::find(starters.begin(), starters.end(), name) != starters.end();
}

}  // namespace

std::string other_program(const PlanPoint& point, const std::string& command) {
  const std::string name = fs::path(command).filename().string();
  if (point.program.empty() || name == point.program) return "";
  const fs::path ours = found_program(command);
  if (ours.empty() || !is_binary(ours)) return "";
  if (starts_others(name) || starts_others(ours.filename().string())) return "";
  const fs::path recorded = found_program(point.program);
  if (!recorded.empty() && recorded == ours) return "";
  return fmt::format("it was recorded of {}, and this command starts {}", point.program, name);
}

}  // namespace terrace::cli
