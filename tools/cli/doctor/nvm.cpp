// NVM: NUMA nodes of slow memory and file systems with DAX, which `terrace run --tiers nvm=…` and [[tier]]
// take.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "tiers/memory/nvm_file.h"
#include "tiers/probe/probe.h"
#include "tools/cli/base/files.h"
#include "tools/cli/base/format.h"
#include "tools/cli/doctor/checks.h"

namespace terrace::cli {

namespace {

std::vector<unsigned> numbers_of(const tiers::NodeSet& nodes) {
  std::vector<unsigned> numbers;
  for (unsigned node = 0; node < tiers::NodeSet::most; ++node)
    if (nodes.has(node)) numbers.push_back(node);
  return numbers;
}

// No more than a note: few machines have some, and nothing is worse without.
Finding nodes_finding(const tiers::NodeSet& nodes) {
  const std::vector<unsigned> numbers = numbers_of(nodes);
  const std::uint64_t free = tiers::free_bytes(nodes);
  const std::string value = numbers.empty()
                                ? "none: every node with memory has processors, or ranks as high as theirs"
                                : fmt::format("node {}: {} free", fmt::join(numbers, ", "), bytes_text(free));
  return {"nvm",
          "slow_nodes",
          Health::note,
          value,
          numbers.empty() ? "" : "--tiers nvm=SIZE puts data there before any goes to the pool",
          {{"nodes", numbers}, {"free_bytes", free}}};
}

// Where a file that is made there has the attribute; a mount option may be overridden by a directory's flag.
bool has_dax(const std::string& directory) {
  int fd = -1;
  if (tiers::open_nvm_in_directory(directory.c_str(), &fd) != 0) return false;
  const bool has = tiers::is_dax(fd);
  close(fd);
  return has;
}

// "36 35 98:0 /root /mnt/pmem rw - ext4 /dev/pmem0 rw,dax=always"
std::vector<std::string> dax_mounts(const std::string& mounts) {
  std::vector<std::string> found;
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped, directory;
    words >> skipped >> skipped >> skipped >> skipped >> directory;
    const bool may_have_it =
        line.find("dax") != std::string::npos || line.find("/dev/pmem") != std::string::npos;
    if (may_have_it && has_dax(directory)) found.push_back(directory);
  }
  return found;
}

Finding dax_finding(const std::vector<std::string>& directories) {
  return {"nvm",
          "dax",
          Health::note,
          directories.empty() ? "no file system with DAX is mounted where files can be made"
                              : fmt::format("{}", fmt::join(directories, ", ")),
          directories.empty() ? "" : fmt::format("--tiers nvm=SIZE@{} puts data there", directories.front()),
          {{"directories", directories}}};
}

Finding speed_finding(const std::string& where, int fd) {
  tiers::ProbeResult result;
  if (const int error = tiers::probe_nvm(fd, {}, &result))
    return {"speed",
            "nvm",
            Health::degraded,
            fmt::format("{} cannot be measured: {}", where, std::strerror(error)),
            "free 320 MiB there",
            {{"path", where}}};
  const auto rate = [](double bytes_per_second) {
    return bytes_text(static_cast<std::uint64_t>(bytes_per_second)) + "/s";
  };
  return {"speed",
          "nvm",
          Health::note,
          fmt::format("{}: read {}, write {}", where, rate(result.read_bytes_per_second),
                      rate(result.write_bytes_per_second)),
          "",
          {{"path", where},
           {"read_bytes_per_second", result.read_bytes_per_second},
           {"write_bytes_per_second", result.write_bytes_per_second},
           {"read_latency_p50_seconds", static_cast<double>(result.read_latency_p50_ns) / 1e9}}};
}

}  // namespace

void check_nvm(Findings* out) {
  out->push_back(nodes_finding(tiers::slow_nodes()));
  out->push_back(dax_finding(dax_mounts(read_text("/proc/self/mountinfo").value_or(""))));
}

void measure_nvm(Findings* out) {
  constexpr std::uint64_t probed_bytes = tiers::ProbeOptions{}.file_bytes;
  int fd = -1;
  if (const tiers::NodeSet nodes = tiers::slow_nodes();
      !nodes.is_empty() && tiers::open_nvm_on_nodes(nodes, probed_bytes, &fd) == 0)
    out->push_back(speed_finding(fmt::format("node {}", fmt::join(numbers_of(nodes), ", ")), fd));
  for (const std::string& directory : dax_mounts(read_text("/proc/self/mountinfo").value_or("")))
    if (tiers::open_nvm_in_directory(directory.c_str(), &fd) == 0)
      out->push_back(speed_finding(directory, fd));
}

}  // namespace terrace::cli
