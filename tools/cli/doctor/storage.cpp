// The pool directory, and how fast the tiers are.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "tiers/encryption/at_rest.h"
#include "tiers/probe/probe.h"
#include "tools/cli/base/files.h"
#include "tools/cli/base/format.h"
#include "tools/cli/doctor/checks.h"

namespace terrace::cli {

namespace {

int try_open(const std::string& directory, int extra_flags) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | extra_flags, 0600);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

Finding directory_finding(const std::string& directory) {
  const int error = try_open(directory, 0);
  // Without O_TMPFILE the library makes a file and unlinks it: no worse, but for a moment it has a name.
  const bool usable = error == 0 || (error == EOPNOTSUPP && access(directory.c_str(), W_OK | X_OK) == 0);
  Finding finding{"pool",    "directory", Health::good,
                  directory, "",          {{"path", directory}, {"usable", usable}}};
  if (!usable) {
    finding.health = Health::missing;
    finding.value = fmt::format("{}: {}", directory, std::strerror(error));
    finding.remedy = "name a directory of yours on a fast local disk with --pool";
  } else if (lies_in_memory(directory)) {
    finding.health = Health::degraded;
    finding.value = directory + " is itself in memory (tmpfs)";
    finding.remedy =
        "what is written there uses the DRAM it should save: name a directory on a disk with --pool";
  }
  return finding;
}

Finding direct_finding(const std::string& directory) {
  const int error = try_open(directory, O_DIRECT);
  return {"pool",
          "O_DIRECT",
          error == 0 ? Health::good : Health::degraded,
          error == 0 ? "works" : fmt::format("no: {}", std::strerror(error)),
          error == 0
              ? ""
              : "the page cache holds a second copy of what is written: use ext4 or xfs on a local disk",
          {{"works", error == 0}}};
}

Finding space_finding(const std::string& directory) {
  struct statvfs found {};
  statvfs(directory.c_str(), &found);
  const std::uint64_t free = std::uint64_t{found.f_bavail} * found.f_frsize;
  const bool enough = free >= std::uint64_t{4} << 30;
  return {"pool",
          "space",
          enough ? Health::good : Health::degraded,
          bytes_text(free) + " free",
          enough ? "" : "a training job needs several GiB: free some, or name another directory with --pool",
          {{"free_bytes", free}}};
}

// No more than a note: whoever needs it asks for it in terraced.toml.
Finding encryption_finding(const std::string& directory) {
  using How = encryption::AtRest::How;
  const encryption::AtRest found = encryption::look_at_rest(directory);
  std::string value = "not possible", remedy = found.reason;
  if (found.is_encrypted()) {
    value = found.how == How::device ? "on: the file system lies on dm-crypt"
                                     : "on: the directory is encrypted (fscrypt)";
  } else if (found.how == How::possible) {
    value =
        "possible (fscrypt): encrypt = \"yes\" in terraced.toml; inlinecrypt as a mount option keeps "
        "O_DIRECT";
  }
  return {"pool",
          "encryption",
          Health::note,
          std::move(value),
          std::move(remedy),
          {{"on", found.is_encrypted()}, {"possible", found.how != How::impossible}}};
}

std::string rate_text(double bytes_per_second) {
  return bytes_text(static_cast<std::uint64_t>(bytes_per_second)) + "/s";
}

double seconds_of_copy(void* to, const void* from, std::size_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  std::memcpy(to, from, bytes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of five: what the memory can do, not what the neighbours left.
Finding dram_speed() {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 1e9;
  for (int round = 0; round < 5; ++round)
    best = std::min(best, seconds_of_copy(to.data(), from.data(), bytes));
  const double rate = static_cast<double>(bytes) / best;
  return {"speed",      "dram_copy",
          Health::note, rate_text(rate),
          "",           {{"bytes_per_second", rate}, {"checked", static_cast<int>(to[bytes / 2])}}};
}

Finding pool_speed(const std::string& directory) {
  tiers::ProbeResult result;
  const int error = tiers::probe_directory(directory.c_str(), {}, &result);
  if (error != 0)
    return {"speed",
            "pool",
            Health::degraded,
            fmt::format("cannot be measured: {}", std::strerror(error)),
            "free 256 MiB there, or name another directory with --pool",
            nullptr};
  return {"speed",
          "pool",
          Health::note,
          fmt::format("read {}, write {} (fresh blocks {}); 4 KiB read {} median, {} p99",
                      rate_text(result.read_bytes_per_second), rate_text(result.write_bytes_per_second),
                      rate_text(result.fresh_write_bytes_per_second),
                      duration_text(result.read_latency_p50_ns), duration_text(result.read_latency_p99_ns)),
          "",
          {{"read_bytes_per_second", result.read_bytes_per_second},
           {"write_bytes_per_second", result.write_bytes_per_second},
           {"fresh_write_bytes_per_second", result.fresh_write_bytes_per_second},
           {"read_latency_p50_seconds", static_cast<double>(result.read_latency_p50_ns) / 1e9},
           {"read_latency_p99_seconds", static_cast<double>(result.read_latency_p99_ns) / 1e9},
           {"direct", result.direct},
           {"io", result.io}}};
}

Finding drives_finding(const PoolList& directories) {
  const std::string twin = pool_twin(directories);
  const bool apart = twin.empty();
  return {"pool",
          "drives",
          apart ? Health::good : Health::degraded,
          apart ? fmt::format("{} file systems, used at once", directories.size())
                : twin + " is on the same file system as a directory before it",
          apart ? "" : "name one directory on each drive with --pool: two on one drive are no faster",
          {{"apart", apart}}};
}

// What is said of one of several names it.
void add(Finding finding, const std::string& directory, bool is_one_of_several, Findings* out) {
  if (is_one_of_several && !finding.value.starts_with(directory))
    finding.value = directory + ": " + finding.value;
  if (finding.facts.is_object()) finding.facts["path"] = directory;
  out->push_back(std::move(finding));
}

}  // namespace

void check_pool(const PoolList& directories, Findings* out) {
  const bool several = directories.size() > 1;
  for (const std::string& directory : directories) {
    add(directory_finding(directory), directory, several, out);
    if (out->back().health == Health::missing) continue;
    add(direct_finding(directory), directory, several, out);
    add(space_finding(directory), directory, several, out);
    add(encryption_finding(directory), directory, several, out);
  }
  if (several) out->push_back(drives_finding(directories));
}

void measure_speeds(const PoolList& directories, Findings* out) {
  out->push_back(dram_speed());
  for (const std::string& directory : directories)
    add(pool_speed(directory), directory, directories.size() > 1, out);
}

}  // namespace terrace::cli
