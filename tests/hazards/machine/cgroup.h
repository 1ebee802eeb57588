// Cgroups of a test's own, for memory and for the disk, on either version, and the job that is put into one.
#pragma once

#include <cstddef>
#include <string>

namespace terrace::hazards {

// Made with the object, removed with it. Version 1 where that hierarchy is mounted, else version 2.
class MemoryCgroup {
 public:
  MemoryCgroup();
  ~MemoryCgroup();
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  bool made() const { return made_; }
  const std::string& path() const { return path_; }
  bool limit(std::size_t bytes) const;
  // Whether its pages may be swapped out, where the machine has swap.
  bool allow_swap(bool allowed) const;
  std::string kills() const;

 private:
  std::string path_;
  bool is_v1_ = false;
  bool made_ = false;
};

// The same for reads of the disk on which a directory lies: no more than so many bytes a second. Writes go as
// they do. made() is false where there is no such controller, or the directory is not on a whole disk.
class SlowReads {
 public:
  SlowReads(const std::string& directory, std::size_t bytes_per_second);
  ~SlowReads();
  SlowReads(const SlowReads&) = delete;
  SlowReads& operator=(const SlowReads&) = delete;

  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

// What a test says where made() or limit() is false.
inline constexpr const char* no_memory_cgroup =
    "no memory cgroup can be made here (needs root and the memory controller)";

// A scenario's Preparation: puts it into the group that `cgroup_to_join` names.
extern std::string cgroup_to_join;
void join_cgroup();

// In a scenario: the kernel takes from the group what it can at this moment. False: this kernel cannot be
// asked to (version 2 before Linux 5.19).
bool reclaim_all(const std::string& cgroup_path);

bool write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

}  // namespace terrace::hazards
