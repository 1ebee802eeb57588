// How much memory there is to hand out: the machine's, or less where a memory cgroup around us says so.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::daemon {

// The smaller of MemTotal and every limit from our own memory cgroup (v1 and v2) up to its root.
// `root` is where /proc and /sys are looked for: "" on a real machine, a directory in tests. 0
// when nothing can be read.
std::uint64_t memory_limit_bytes(const std::string& root = "");

// The file system of `directory`, used or free; 0 when it cannot be asked.
std::uint64_t whole_disk_bytes(const std::string& directory);

// Free for unprivileged users on the file system of `directory`; 0 when it cannot be asked.
std::uint64_t free_disk_bytes(const std::string& directory);

}  // namespace terrace::daemon
