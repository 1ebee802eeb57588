// How much the kernel may still swap for this process, and how much of it is swapped out.
//
// Three may refuse: the machine (/proc/meminfo), the process's cgroup, and each cgroup above it. Of version 2
// these are memory.swap.max and memory.swap.current of every level; of version 1 memory.stat's
// hierarchical_memsw_limit, which covers the levels above. Where swappiness is 0, which is memory.swappiness
// of version 1 and /proc/sys/vm/swappiness else, a limit never makes the kernel swap. Files are read with
// pread and parsed with bounds on the agent's thread. A cgroup above that this process cannot see may refuse
// all the same. Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, sysctl/vm.rst.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class SwapState {
 public:
  // Of a cgroup that budget_follower.h could open. 0 or errno.
  int open(const char* cgroup_directory, const char* proc = "/proc");
  void close();
  bool is_open() const { return directory_fd_ >= 0; }

  // 0: none, or it cannot be told.
  std::uint64_t free_bytes() const;
  // Of this process, heap and all else. Takes the kernel some 20 microseconds.
  std::uint64_t swapped_bytes() const;
  // Anonymous memory of this process.
  std::uint64_t resident_bytes() const;

 private:
  bool is_unwanted() const;
  std::uint64_t free_of_cgroups() const;
  std::uint64_t free_of_cgroup_v1() const;

  int directory_fd_ = -1;
  int proc_fd_ = -1;
  int machine_fd_ = -1;
  int process_fd_ = -1;
  bool is_v2_ = false;
};

}  // namespace terrace::liballoc
