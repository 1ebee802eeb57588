#include "tests/hazards/cgroup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace terrace::hazards {

std::string cgroup_to_join;  // read between fork and exec

void join_cgroup() {
  if (!write_file(cgroup_to_join + "/cgroup.procs", std::to_string(getpid()))) _exit(126);
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

MemoryCgroup::MemoryCgroup() {
  const std::string name = "/terrace-hazard-" + std::to_string(getpid());
  is_v1_ = access("/sys/fs/cgroup/memory/memory.limit_in_bytes", W_OK) == 0;
  path_ = (is_v1_ ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup") + name;
  made_ = mkdir(path_.c_str(), 0755) == 0;
}

MemoryCgroup::~MemoryCgroup() {
  for (int i = 0; made_ && rmdir(path_.c_str()) != 0 && i < 100; ++i) usleep(10'000);
}

bool MemoryCgroup::limit(std::size_t bytes) const {
  return made_ &&
         write_file(path_ + (is_v1_ ? "/memory.limit_in_bytes" : "/memory.max"), std::to_string(bytes));
}

bool MemoryCgroup::allow_swap(bool allowed) const {
  if (is_v1_) return made_ && write_file(path_ + "/memory.swappiness", allowed ? "100" : "0");
  return made_ && (write_file(path_ + "/memory.swap.max", allowed ? "max" : "0") || !allowed);
}

std::string MemoryCgroup::kills() const {
  std::istringstream lines(read_file(path_ + (is_v1_ ? "/memory.oom_control" : "/memory.events")));
  for (std::string word, count; lines >> word >> count;) {
    if (word == "oom_kill") return count;
  }
  return "unknown";
}

// The write of version 2 fails with EAGAIN when there was less to take than was asked for.
bool reclaim_all(const std::string& cgroup_path) {
  if (write_file(cgroup_path + "/memory.force_empty", "0")) return true;
  if (access((cgroup_path + "/memory.reclaim").c_str(), W_OK) != 0) return false;
  for (int i = 0; i < 4; ++i) write_file(cgroup_path + "/memory.reclaim", "1G");
  return true;
}

}  // namespace terrace::hazards
