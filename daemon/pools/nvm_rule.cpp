// See nvm_rule.h.
#include "daemon/pools/nvm_rule.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "daemon/base/machine.h"
#include "daemon/base/size.h"
#include "tiers/memory/nvm_file.h"

namespace terrace::daemon {
namespace {

std::string of_line(const NvmRule& rule, const std::string& problem) {
  return problem.empty() ? "" : fmt::format("[[tier]] nvm (line {}): {}", rule.line, problem);
}

std::string lost_directory_of(const NvmRule& rule) {
  int fd = -1;
  if (const int error = tiers::open_nvm_in_directory(rule.directory.c_str(), &fd))
    return fmt::format("no file can be made in {}: {}; make it, or name another directory", rule.directory,
                       std::strerror(error));
  ::close(fd);
  return {};
}

std::string check_directory_of(const NvmRule& rule) {
  if (std::string lost = lost_directory_of(rule); !lost.empty()) return lost;
  // Against the whole file system: of what is free, files of running jobs have taken a part at a restart.
  const std::uint64_t whole = whole_disk_bytes(rule.directory);
  if (whole == 0 || rule.bytes <= whole) return {};
  return fmt::format("{} is more than the whole file system of {}, which has {}; ask for less",
                     format_size(rule.bytes), rule.directory, format_size(whole));
}

std::string check_nodes_of(const NvmRule& rule) {
  const tiers::NodeSet nodes = rule.nodes.is_empty() ? tiers::slow_nodes() : rule.nodes;
  if (nodes.is_empty())
    return "no NUMA node of this machine is slow memory (CXL, or persistent memory as system memory); name "
           "nodes with nodes = \"1\", a directory on a file system that is mounted with DAX, or leave this "
           "tier out";
  int fd = -1;
  if (const int error = tiers::open_nvm_on_nodes(nodes, rule.bytes, &fd))
    return fmt::format("no memory can be had of its NUMA nodes: {}; name others with nodes = \"1\"",
                       std::strerror(error));
  ::close(fd);
  return {};
}

}  // namespace

std::string check_nvm(const NvmRule& rule) {
  return of_line(rule, rule.directory.empty() ? check_nodes_of(rule) : check_directory_of(rule));
}

std::string lost_nvm_directory(const NvmRule& rule) {
  return rule.directory.empty() ? "" : of_line(rule, lost_directory_of(rule));
}

}  // namespace terrace::daemon
