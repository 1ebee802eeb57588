// How much memory there is to hand out: the machine's, or less where a memory cgroup around us says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace terrace::daemon {

// A memory cgroup of version 2, and the least of what it may use: memory.max, beyond which the kernel ends
// somebody, and memory.high, beyond which it lets all wait.
struct MemoryCgroup {
  std::string directory;
  std::uint64_t limit_bytes = 0;
};

// Of those around us, the tightest; nothing where none has a limit below the machine's memory. Reads files.
std::optional<MemoryCgroup> tightest_memory_cgroup(const std::string& root = "");

// The smaller of MemTotal and every limit from our own memory cgroup (v1 and v2) up to its root.
// `root` is where /proc and /sys are looked for: "" on a real machine, a directory in tests. 0
// when nothing can be read.
std::uint64_t memory_limit_bytes(const std::string& root = "");

// The file system of `directory`, used or free; 0 when it cannot be asked.
std::uint64_t whole_disk_bytes(const std::string& directory);

// Free for unprivileged users on the file system of `directory`; 0 when it cannot be asked.
std::uint64_t free_disk_bytes(const std::string& directory);

}  // namespace terrace::daemon
