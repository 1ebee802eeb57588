// The machine around the pager: kernel, io_uring, limits of the process, cgroups, swap, GPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tools/cli/base/files.h"
#include "tools/cli/base/format.h"
#include "tools/cli/cgroup/cgroup.h"
#include "tools/cli/doctor/checks.h"

namespace terrace::cli {

namespace {

Finding kernel_finding() {
  utsname names{};
  uname(&names);
  unsigned major = 0, minor = 0;
  std::sscanf(names.release, "%u.%u", &major, &minor);
  const bool enough = major > 5 || (major == 5 && minor >= 11);
  return {
      "machine",
      "kernel",
      enough ? Health::good : Health::degraded,
      fmt::format("{} {}", names.sysname, names.release),
      enough ? "" : "Linux 5.11 or newer is needed for the pager, 6.8 for the fastest way of moving pages",
      {{"release", names.release}, {"machine", names.machine}}};
}

Finding io_uring_finding() {
  io_uring_params params{};
  const int fd = static_cast<int>(syscall(SYS_io_uring_setup, 2, &params));
  const int error = errno;
  if (fd >= 0) close(fd);
  const auto disabled = read_number("/proc/sys/kernel/io_uring_disabled");
  const bool works = fd >= 0;
  const char* remedy = disabled.value_or(0) != 0
                           ? "sysctl kernel.io_uring_disabled=0; until then reads and writes are synchronous"
                           : "a seccomp profile may forbid it; until then reads and writes are synchronous";
  return {"machine",
          "io_uring",
          works ? Health::good : Health::degraded,
          works ? "works" : fmt::format("no: {}", std::strerror(error)),
          works ? "" : remedy,
          {{"works", works}, {"io_uring_disabled", disabled.value_or(0)}}};
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : bytes_text(limit); }

// The heap reserves a large range of addresses without using it; only RLIMIT_AS counts that.
Finding address_space_finding() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  const bool free = limit.rlim_cur == RLIM_INFINITY;
  return {"machine",
          "address_space_limit",
          free ? Health::good : Health::degraded,
          limit_text(limit.rlim_cur),
          free ? "" : "the heap reserves more addresses than that: ulimit -v unlimited",
          {{"limited", !free}}};
}

Finding memlock_finding() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return {"machine",    "memlock_limit",
          Health::note, limit_text(limit.rlim_cur),
          "",           {{"limited", limit.rlim_cur != RLIM_INFINITY}}};
}

Finding map_count_finding() {
  const std::uint64_t count = read_number("/proc/sys/vm/max_map_count").value_or(0);
  const bool enough = count >= 65530;
  return {
      "machine",
      "max_map_count",
      enough ? Health::good : Health::degraded,
      fmt::format("{}", count),
      enough ? "" : "a job with many evicted tensors may reach this limit: sysctl vm.max_map_count=262144",
      {{"count", count}}};
}

Finding overcommit_finding() {
  const std::uint64_t mode = read_number("/proc/sys/vm/overcommit_memory").value_or(0);
  constexpr std::array names{"heuristic", "always", "never"};
  const bool good = mode < 2;
  return {
      "machine",
      "overcommit",
      good ? Health::good : Health::degraded,
      mode < 3 ? names.at(mode) : "unknown",
      good ? ""
           : "strict accounting counts evicted data as if it were in memory: sysctl vm.overcommit_memory=0",
      {{"mode", mode}}};
}

Finding swap_finding() {
  const std::uint64_t total = read_keyed_number("/proc/meminfo", "SwapTotal").value_or(0) * 1024;
  return {"machine",    "swap",
          Health::note, total == 0 ? "none (none is needed)" : bytes_text(total),
          "",           {{"total_bytes", total}}};
}

Finding memory_finding() {
  const std::uint64_t total = read_keyed_number("/proc/meminfo", "MemTotal").value_or(0) * 1024;
  const std::uint64_t available = read_keyed_number("/proc/meminfo", "MemAvailable").value_or(0) * 1024;
  return {"machine",    "memory",
          Health::note, fmt::format("{}, {} available", bytes_text(total), bytes_text(available)),
          "",           {{"total_bytes", total}, {"available_bytes", available}}};
}

// Through the driver alone, so that the command needs no CUDA to be built or run. -1: no driver.
int gpu_count() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return -1;
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<Count>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  const bool asked = init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0;
  return asked ? devices : 0;
}

Finding gpu_finding() {
  const int count = gpu_count();
  const std::string value = count < 0    ? "none (no CUDA driver)"
                            : count == 0 ? "none"
                                         : fmt::format("{}", count);
  return {"machine", "gpu", Health::note,
          value,     "",    {{"count", count < 0 ? 0 : count}, {"driver", count >= 0}}};
}

Finding no_hierarchy() {
  return {"cgroup",
          "hierarchy",
          Health::degraded,
          "none with the memory controller",
          "'terrace run --limit' cannot work; --dram can: mount cgroup2, or run outside of the container",
          {{"version", nullptr}}};
}

Finding child_finding(const MemoryCgroup& own) {
  auto child = JobCgroup::create(own, std::uint64_t{1} << 30);
  if (child) child->remove();
  return {"cgroup",
          "child",
          child ? Health::good : Health::degraded,
          child ? "can be made" : "cannot be made",
          child ? "" : child.error,
          {{"possible", bool{child}}}};
}

}  // namespace

void check_machine(Findings* out) {
  for (auto check : {kernel_finding, memory_finding, io_uring_finding, overcommit_finding, map_count_finding,
                     address_space_finding, memlock_finding, swap_finding, gpu_finding})
    out->push_back(check());
}

void check_cgroup(Findings* out) {
  const auto own = find_memory_cgroup();
  if (!own) return out->push_back(no_hierarchy());
  const int version = static_cast<int>(own->version);
  out->push_back({"cgroup",
                  "hierarchy",
                  Health::good,
                  fmt::format("version {}, {}", version, own->directory.string()),
                  "",
                  {{"version", version}, {"directory", own->directory.string()}}});
  const Ceiling ceiling = memory_ceiling();
  out->push_back({"cgroup",
                  "ceiling",
                  Health::note,
                  fmt::format("{} ({})", bytes_text(ceiling.bytes), ceiling.origin),
                  "",
                  {{"bytes", ceiling.bytes}, {"origin", ceiling.origin}}});
  out->push_back(child_finding(*own));
}

}  // namespace terrace::cli
