// The kernel's word on memory: /proc/pressure/memory (PSI) and /proc/meminfo, the same of the tightest memory
// cgroup around us, and what follows from it for the budget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/pressure/pressure_policy.h"

namespace terrace::daemon {

class MemoryPressure {
 public:
  static constexpr std::uint64_t pause_ns = 1'000'000'000;

  // `root` is where /proc is looked for: "" on a real machine, a directory in tests.
  explicit MemoryPressure(std::string root) : root_(std::move(root)) {}

  // Asks the kernel, once a second at most. True when of() changed by it. That the kernel does not say is
  // logged once; then nothing changes.
  bool is_due(std::uint64_t now_ns) const { return now_ns >= next_ns_; }
  bool look(std::uint64_t budget_bytes, std::uint64_t now_ns);
  // What is handed out of a budget.
  std::uint64_t of(std::uint64_t budget_bytes) const { return policy_.of(budget_bytes); }
  std::uint64_t lowers(std::uint64_t budget_bytes) const { return budget_bytes - of(budget_bytes); }
  // Whether the kernel said it when it was asked last; nothing before.
  std::optional<bool> is_known() const { return is_known_; }

 private:
  std::string root_;
  PressurePolicy policy_;
  std::optional<bool> is_known_;
  std::uint64_t next_ns_ = 0;
};

// Out of the texts of the two files; nothing when either does not say it.
std::optional<MemoryState> read_memory_state(std::string_view pressure, std::string_view meminfo);
// Of a cgroup with a limit, out of its memory.pressure, memory.current and memory.stat. What it may still use
// without waiting is what it does not, and pages of files that nobody has used for long.
std::optional<MemoryState> read_cgroup_state(std::string_view pressure, std::string_view current,
                                             std::string_view stat, std::uint64_t limit_bytes);

}  // namespace terrace::daemon
