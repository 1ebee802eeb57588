// Memory cgroups, version 1 and 2: which one this process is in, the tightest limit above it, and a child
// for one job so that the kernel itself enforces `terrace run --limit`.
//
// Reading is pure over a root directory, so that tests lay out hierarchies as plain files. Where a child can
// be made differs: version 1 allows one below any directory we may write; version 2 forbids processes in a
// cgroup that hands controllers to children, so terrace either finds the controller handed on already, or is
// alone in its cgroup and steps aside into a leaf, or uses a place beside its own cgroup when that has no
// limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "liballoc/wire/result.h"
#include "tools/cli/base/budget.h"

namespace terrace::cli {

enum class CgroupVersion { v1 = 1, v2 = 2 };

struct MemoryCgroup {
  CgroupVersion version = CgroupVersion::v2;
  std::filesystem::path mount;      // top of the hierarchy as this process sees it
  std::filesystem::path directory;  // where this process is; equals mount or lies below it
};

// nullopt when no hierarchy with the memory controller is mounted. `root` stands for "/" in tests.
std::optional<MemoryCgroup> find_memory_cgroup(const std::filesystem::path& root = "/");

// The limit of one cgroup directory, absent when unlimited (version 2: the lower of memory.max and
// memory.high).
std::optional<std::uint64_t> limit_of(CgroupVersion version, const std::filesystem::path& directory);

// The tightest of the machine's memory and every ancestor's limit.
Ceiling memory_ceiling(const std::filesystem::path& root = "/");

struct JobPlace {
  std::filesystem::path parent;
  bool enable_controller = false;  // write +memory into parent/cgroup.subtree_control
  bool step_aside = false;         // first move this process into a leaf of parent
};

// Where a child cgroup with a memory limit can be made, or why nowhere and what would help.
Result<JobPlace> plan_job_place(const MemoryCgroup& own, pid_t self);

class JobCgroup {
 public:
  // Makes the child, removes ones left behind by killed runs, and sets the limit (absent: none, to measure
  // only).
  static Result<JobCgroup> create(const MemoryCgroup& own, std::optional<std::uint64_t> limit_bytes);

  const std::filesystem::path& directory() const { return directory_; }
  // An allocation beyond the limit waits until there is room, instead of ending the job: version 1 waits as
  // long as it takes (LimitWatch), version 2 slows down what grows, from a little below the limit on. 0 or
  // errno.
  int let_wait(std::uint64_t limit_bytes);
  int let_kill() const;
  bool lets_wait() const { return waits_at_.has_value(); }
  // Of version 1, after let_wait(): sets the limit this much above what it was, or back with 0. 0 or errno
  // (EBUSY: the job holds more than that now).
  int exceed_by(std::uint64_t bytes) const;
  // Of version 1: whether an allocation waits now, and how many pages the job has given back so far.
  bool waits() const;
  std::optional<std::uint64_t> pages_that_left() const;
  // Puts the calling process in; between fork and exec. 0 or errno.
  int attach_self() const;
  std::optional<std::uint64_t> peak_bytes() const;
  std::optional<std::uint64_t> limit_hits() const;  // times an allocation met the limit and had to reclaim
  std::optional<std::uint64_t> oom_kills() const;
  // Undoes create(). False when processes of the job are still inside.
  bool remove();

 private:
  JobCgroup(CgroupVersion version, JobPlace place, std::filesystem::path directory);
  int prepare_parent() const;
  int set_limit(std::uint64_t bytes) const;
  void return_to_parent() const;

  CgroupVersion version_;
  JobPlace place_;
  std::filesystem::path directory_;
  std::optional<std::uint64_t> waits_at_;  // this limit in bytes, for as long as it takes
};

}  // namespace terrace::cli
