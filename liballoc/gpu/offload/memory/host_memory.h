// How much memory this process may take: the machine's, or less where a memory cgroup around it says so.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::liballoc::offload {

// The smallest of MemTotal and the limits of our memory cgroups up to the root (v1 and v2). `root` is where
// /proc and /sys are looked for: "" on a machine, a directory in tests. 2^64 - 1 when nothing can be read.
std::uint64_t host_memory_limit_bytes(const std::string& root = "");

}  // namespace terrace::liballoc::offload
