// Keeps a whole process under a cgroup limit by giving the heap what the rest of the process leaves.
//
//   limit = what cannot be reclaimed (anonymous and kernel memory, ours included) + page cache + reserve
//   budget = what we hold now + (limit - what cannot be reclaimed) - reserve
//
// Beyond the limit the kernel ends processes, so that the reserve must cover all that grows before the heap
// has made room. Where an allocation waits instead (v1: memory.oom_control, v2: memory.high, as `terrace run
// --limit` sets them), the reserve is large only while memory outside the heap grows (docs/decisions/024).
//
// Both cgroup versions: memory.limit_in_bytes, memory.usage_in_bytes, memory.oom_control and memory.stat
// (v1); memory.max, memory.current, memory.high and memory.stat (v2). The files are opened once and read with
// pread on the agent's thread; the kernel's text is parsed with bounds.
#pragma once

#include <algorithm>
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
  // How soon to ask again.
  std::uint64_t pause_ns() const;
  std::uint64_t reserve_bytes() const { return reserve_; }
  std::uint64_t usage_bytes() const { return usage_; }
  // Of that, what cannot be reclaimed without swap.
  std::uint64_t kept_bytes() const { return usage_ - std::min(usage_, page_cache_); }
  std::uint64_t limit_bytes() const { return limit_; }

 private:
  void read_page_cache();
  void read_throttle();
  void fit_reserve(std::uint64_t outside);

  int usage_fd_ = -1;
  int limit_fd_ = -1;
  int stat_fd_ = -1;
  int wait_fd_ = -1;
  bool is_v2_ = false;
  std::uint64_t usage_ = 0;
  std::uint64_t limit_ = 0;
  std::uint64_t page_cache_ = 0;
  std::uint64_t reserve_ = ~0ULL >> 2;
  bool waits_ = false;                 // an allocation beyond the limit does
  std::uint64_t throttled_ = 0;        // how far below the limit it begins to
  std::uint64_t outside_ = 0;          // what the rest of the process had at the last look
  std::uint64_t growth_ = ~0ULL >> 2;  // from one look to the next; nothing is known yet
  unsigned countdown_ = 0;
};

}  // namespace terrace::liballoc
