// Keeps a whole process under a cgroup limit by giving the heap what the rest of the process leaves.
//
//   limit = what cannot be reclaimed (anonymous and kernel memory, ours included) + page cache + reserve
//   budget = what we hold now + (limit - what cannot be reclaimed) - reserve
//
// Both cgroup versions: memory.limit_in_bytes, memory.usage_in_bytes and memory.stat (v1); memory.max,
// memory.current and memory.stat (v2). The files are opened once and read with pread on the agent's thread;
// the kernel's text is parsed with bounds.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class BudgetFollower {
 public:
  // 0; ENOENT and the like: not a memory cgroup.
  int open(const char* cgroup_directory);
  bool is_open() const { return usage_fd_ >= 0; }
  void close();

  // What the heap may hold, `held_bytes` being what it holds now. At most `most_bytes`.
  std::uint64_t budget(std::uint64_t held_bytes, std::uint64_t most_bytes);
  std::uint64_t usage_bytes() const { return usage_; }
  std::uint64_t limit_bytes() const { return limit_; }

 private:
  int usage_fd_ = -1;
  int limit_fd_ = -1;
  int stat_fd_ = -1;
  std::uint64_t usage_ = 0;
  std::uint64_t limit_ = 0;
  std::uint64_t page_cache_ = 0;
  unsigned countdown_ = 0;
};

// The number at the start of `text`; false if there is none ("max").
bool parse_number(const char* text, std::uint64_t* value);
// The value after "key " at the beginning of a line of `text`; false if there is no such line.
bool find_field(const char* text, const char* key, std::uint64_t* value);

}  // namespace terrace::liballoc
