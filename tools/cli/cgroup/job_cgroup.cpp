// The child cgroup of one job: where it can be made, its life, and what the kernel counted in it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <thread>

#include "tools/cli/base/files.h"
#include "tools/cli/cgroup/cgroup.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* group_prefix = "terrace-";

bool hands_on_memory(const fs::path& directory) {
  std::istringstream words(read_text(directory / "cgroup.subtree_control").value_or(""));
  for (std::string word; words >> word;)
    if (word == "memory") return true;
  return false;
}

bool only_process_is(const fs::path& directory, pid_t self) {
  return trimmed(read_text(directory / "cgroup.procs").value_or("")) == std::to_string(self);
}

// The kernel's topmost cgroup has no cgroup.type and is exempt from the rule against processes in it.
bool is_topmost(const fs::path& directory) { return !fs::exists(directory / "cgroup.type"); }

// Leaving our own cgroup must not lift a limit from the job that somebody put on us.
bool may_sit_beside(const MemoryCgroup& own) {
  return own.directory != own.mount && !limit_of(own.version, own.directory) &&
         hands_on_memory(own.directory.parent_path());
}

Result<JobPlace> plan_v2(const MemoryCgroup& own, pid_t self) {
  if (hands_on_memory(own.directory)) return ok(JobPlace{own.directory});
  if (is_topmost(own.directory)) return ok(JobPlace{own.directory, true, false});
  if (only_process_is(own.directory, self)) return ok(JobPlace{own.directory, true, true});
  if (may_sit_beside(own)) return ok(JobPlace{own.directory.parent_path()});
  return refused<JobPlace>(fmt::format(
      "the cgroup {} also holds other processes, so it cannot get a child with a memory limit; start the job "
      "in a scope of its own: systemd-run --user --scope -p Delegate=yes terrace run …",
      own.directory.string()));
}

// The kernel slows down who allocates beyond memory.high the more, the larger the share of it that is
// exceeded: at a fiftieth the job stands nearly still.
std::uint64_t throttle_bytes(std::uint64_t limit_bytes) {
  const std::uint64_t below = std::max<std::uint64_t>(limit_bytes / 48, 12ULL << 20);
  return limit_bytes - std::min(limit_bytes / 2, below);
}

// The pid in "terrace-<pid>", also for the leaf "terrace-<pid>-run"; 0 for any other name.
pid_t owner_of(const std::string& name) {
  if (!name.starts_with(group_prefix)) return 0;
  pid_t pid = 0;
  const auto [end, error] =
      std::from_chars(name.c_str() + std::strlen(group_prefix), name.c_str() + name.size(), pid);
  const bool whole = *end == '\0' || std::strcmp(end, "-run") == 0;
  return error == std::errc{} && whole ? pid : 0;
}

bool is_abandoned(pid_t owner) {
  return owner > 0 && (owner == getpid() || (kill(owner, 0) != 0 && errno == ESRCH));
}

// A run that was killed could not remove its cgroup. rmdir refuses one that still holds processes.
void remove_abandoned_groups(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (is_abandoned(owner_of(entry.path().filename().string()))) rmdir(entry.path().c_str());
}

fs::path leaf_of(const JobPlace& place) {
  return place.parent / fmt::format("{}{}-run", group_prefix, getpid());
}

Result<JobCgroup> cannot(const char* what, const fs::path& where, int error) {
  const char* remedy =
      error == EACCES || error == EPERM || error == EROFS
          ? "; run as root, or inside: systemd-run --user --scope -p Delegate=yes terrace run …"
          : "";
  return refused<JobCgroup>(
      fmt::format("cannot {} {}: {}{}", what, where.string(), std::strerror(error), remedy));
}

}  // namespace

Result<JobPlace> plan_job_place(const MemoryCgroup& own, pid_t self) {
  return own.version == CgroupVersion::v1 ? ok(JobPlace{own.directory}) : plan_v2(own, self);
}

JobCgroup::JobCgroup(CgroupVersion version, JobPlace place, fs::path directory)
    : version_(version), place_(std::move(place)), directory_(std::move(directory)) {}

Result<JobCgroup> JobCgroup::create(const MemoryCgroup& own, std::optional<std::uint64_t> limit_bytes) {
  auto place = plan_job_place(own, getpid());
  if (!place) return refused<JobCgroup>(place.error);
  remove_abandoned_groups(place->parent);
  JobCgroup made(own.version, *place, place->parent / fmt::format("{}{}", group_prefix, getpid()));
  if (const int error = made.prepare_parent())
    return cannot("hand the memory controller on in", place->parent, error);
  if (mkdir(made.directory_.c_str(), 0755) != 0) return cannot("make the cgroup", made.directory_, errno);
  const int error = limit_bytes ? made.set_limit(*limit_bytes) : 0;
  if (error == 0) return ok(std::move(made));
  made.remove();
  return cannot("set the memory limit of", made.directory_, error);
}

int JobCgroup::prepare_parent() const {
  if (place_.step_aside) {
    const fs::path leaf = leaf_of(place_);
    if (mkdir(leaf.c_str(), 0755) != 0) return errno;
    if (const int error = write_text(leaf / "cgroup.procs", "0")) return error;
  }
  return place_.enable_controller ? write_text(place_.parent / "cgroup.subtree_control", "+memory") : 0;
}

int JobCgroup::set_limit(std::uint64_t bytes) const {
  const char* file = version_ == CgroupVersion::v1 ? "memory.limit_in_bytes" : "memory.max";
  return write_text(directory_ / file, std::to_string(bytes));
}

int JobCgroup::let_wait(std::uint64_t limit_bytes) {
  if (version_ == CgroupVersion::v2)
    return write_text(directory_ / "memory.high", std::to_string(throttle_bytes(limit_bytes)));
  const int error = write_text(directory_ / "memory.oom_control", "1");
  if (error == 0) waits_at_ = limit_bytes;
  return error;
}

int JobCgroup::exceed_by(std::uint64_t bytes) const { return set_limit(*waits_at_ + bytes); }

int JobCgroup::let_kill() const { return write_text(directory_ / "memory.oom_control", "0"); }

bool JobCgroup::waits() const {
  return read_keyed_number(directory_ / "memory.oom_control", "under_oom").value_or(0) > 0;
}

std::optional<std::uint64_t> JobCgroup::pages_that_left() const {
  return read_keyed_number(directory_ / "memory.stat", "pgpgout");
}

int JobCgroup::attach_self() const { return write_text(directory_ / "cgroup.procs", "0"); }

std::optional<std::uint64_t> JobCgroup::peak_bytes() const {
  return read_number(directory_ /
                     (version_ == CgroupVersion::v1 ? "memory.max_usage_in_bytes" : "memory.peak"));
}

std::optional<std::uint64_t> JobCgroup::limit_hits() const {
  return version_ == CgroupVersion::v1 ? read_number(directory_ / "memory.failcnt")
                                       : read_keyed_number(directory_ / "memory.events", "max");
}

std::optional<std::uint64_t> JobCgroup::oom_kills() const {
  const char* file = version_ == CgroupVersion::v1 ? "memory.oom_control" : "memory.events";
  return read_keyed_number(directory_ / file, "oom_kill");
}

bool JobCgroup::remove() {
  // The kernel takes a moment to let go of tasks that have just exited.
  for (int attempt = 0; attempt < 20 && rmdir(directory_.c_str()) != 0 && errno == EBUSY; ++attempt)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (fs::exists(directory_)) return false;
  if (place_.step_aside) return_to_parent();
  return true;
}

// The reverse order of prepare_parent(): only a cgroup that hands nothing on takes processes back.
void JobCgroup::return_to_parent() const {
  if (write_text(place_.parent / "cgroup.subtree_control", "-memory") != 0) return;
  if (write_text(place_.parent / "cgroup.procs", "0") == 0) rmdir(leaf_of(place_).c_str());
}

}  // namespace terrace::cli
