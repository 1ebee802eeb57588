#include "tests/hazards/machine/cgroup.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
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

namespace {

std::string name_of_ours() { return "/terrace-hazard-" + std::to_string(getpid()); }

// Busy until the last process in it is gone for good.
void remove_group(const std::string& path) {
  for (int i = 0; rmdir(path.c_str()) != 0 && i < 100; ++i) usleep(10'000);
}

}  // namespace

MemoryCgroup::MemoryCgroup() {
  const std::string name = name_of_ours();
  is_v1_ = access("/sys/fs/cgroup/memory/memory.limit_in_bytes", W_OK) == 0;
  path_ = (is_v1_ ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup") + name;
  made_ = mkdir(path_.c_str(), 0755) == 0;
}

MemoryCgroup::~MemoryCgroup() {
  if (made_) remove_group(path_);
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

SlowReads::SlowReads(const std::string& directory, std::size_t bytes_per_second) {
  struct stat place {};
  if (stat(directory.c_str(), &place) != 0) return;
  const std::string device = std::to_string(major(place.st_dev)) + ":" + std::to_string(minor(place.st_dev));
  const std::string rate = std::to_string(bytes_per_second);
  const bool is_v1 = access("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device", F_OK) == 0;
  path_ = (is_v1 ? "/sys/fs/cgroup/blkio" : "/sys/fs/cgroup") + name_of_ours();
  if (mkdir(path_.c_str(), 0755) != 0) return;
  made_ = is_v1 ? write_file(path_ + "/blkio.throttle.read_bps_device", device + " " + rate)
                : write_file(path_ + "/io.max", device + " rbps=" + rate);
  if (!made_) remove_group(path_);
}

SlowReads::~SlowReads() {
  if (made_) remove_group(path_);
}

// The write of version 2 fails with EAGAIN when there was less to take than was asked for.
bool reclaim_all(const std::string& cgroup_path) {
  if (write_file(cgroup_path + "/memory.force_empty", "0")) return true;
  if (access((cgroup_path + "/memory.reclaim").c_str(), W_OK) != 0) return false;
  for (int i = 0; i < 4; ++i) write_file(cgroup_path + "/memory.reclaim", "1G");
  return true;
}

}  // namespace terrace::hazards
