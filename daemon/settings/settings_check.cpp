// See settings_check.h.
#include "daemon/settings/settings_check.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/base/group.h"
#include "daemon/base/machine.h"
#include "daemon/base/size.h"
#include "daemon/base/unique_fd.h"
#include "daemon/pools/pools.h"
#include "daemon/settings/tier_rules.h"
#include "daemon/shares/arbiter.h"
#include "tiers/encryption/at_rest.h"

namespace terrace::daemon {
namespace {

std::string check_budget(const Config& config) {
  const std::uint64_t memory = memory_limit_bytes();
  const std::uint64_t budget = config.dram.of(memory);
  if (memory != 0 && budget > memory)
    return fmt::format(
        "[budget] dram: a DRAM budget of {} is more than the {} that this machine or cgroup has; ask for "
        "less",
        format_size(budget), format_size(memory));
  if (budget < wire::least_budget_bytes)
    return fmt::format("[budget] dram: no job can work in a DRAM budget of {}; give at least {}",
                       format_size(budget), format_size(wire::least_budget_bytes));
  return {};
}

// Of a part of the budget that one user or one job has at most.
std::string check_cap(const Config& config, const Amount& amount, std::string_view key,
                      std::string_view refuses) {
  const std::uint64_t budget = config.dram.of(memory_limit_bytes());
  const std::uint64_t cap = amount.of(budget);
  if (budget == 0 || cap >= Arbiter::minimum_bytes) return {};
  return fmt::format("[budget] {}: {} with {} of a DRAM budget of {}; give at least {} ({}B)", key, refuses,
                     format_size(cap), format_size(budget), format_size(Arbiter::minimum_bytes),
                     Arbiter::minimum_bytes);
}

std::string check_caps(const Config& config) {
  std::string error = check_cap(config, config.per_user, "per_user", "no user's job can join");
  if (error.empty()) error = check_cap(config, config.per_job, "per_job", "no job can join");
  return error;
}

std::string check_shares(const Config& config) {
  return wrong_tier_rules(config, config.dram.of(memory_limit_bytes()));
}

// Of what one user has at most of the pool and of a GPU, and of what all have of one.
std::string check_caps_of_tiers(const Config& config) {
  const auto nothing_fits = [](std::string_view key, std::uint64_t bytes, std::uint64_t least) {
    return fmt::format("{}: nothing fits into {}; give at least {}", key, format_size(bytes),
                       format_size(least));
  };
  if (const std::uint64_t cap = config.pool_per_user.of(config.pool_bytes.value_or(no_limit));
      cap < wire::least_pool_bytes)
    return nothing_fits("[pool] per_user", cap, wire::least_pool_bytes);
  const std::uint64_t gpu = *whole_bytes(config, Resource::gpu, 0);
  if (gpu < wire::least_budget_bytes) return nothing_fits("[gpu] memory", gpu, wire::least_budget_bytes);
  if (const std::uint64_t cap = config.gpu_per_user.of(gpu); cap < wire::least_budget_bytes)
    return nothing_fits("[gpu] per_user", cap, wire::least_budget_bytes);
  return {};
}

// A pool that was to be encrypted is never kept in plain text: without it there is no start. A directory that
// is not there keeps nothing.
std::string check_encryption(const Config& config, bool is_private) {
  std::error_code ignored;
  if (!config.encrypts_pool || (!is_private && !std::filesystem::exists(config.pool_directory, ignored)))
    return {};
  const encryption::AtRest at_rest = encryption::look_at_rest(config.pool_directory);
  if (at_rest.how != encryption::AtRest::How::impossible) return {};
  return fmt::format("[pool] encrypt: {}; or set encrypt = \"no\"", at_rest.reason);
}

// Against the whole file system: of what is free, pools of running jobs have taken a part at a restart.
std::string check_pool_size(const Config& config) {
  if (!config.pool_bytes) return {};
  if (*config.pool_bytes < wire::least_pool_bytes)
    return fmt::format("[pool] size: nothing fits into {}; give at least {}", format_size(*config.pool_bytes),
                       format_size(wire::least_pool_bytes));
  const std::uint64_t whole = whole_disk_bytes(config.pool_directory);
  if (whole != 0 && *config.pool_bytes > whole)
    return fmt::format("[pool] size: {} is more than the whole file system of {}, which has {}; ask for less",
                       format_size(*config.pool_bytes), config.pool_directory, format_size(whole));
  return {};
}

// Persistent memory keeps what is written to it, and a file system with DAX encrypts nothing; nodes forget. A
// directory that is lost takes a service's NVM and nothing else.
std::string check_nvm_tier(const Config& config, bool is_private) {
  if (!config.tiers.nvm) return {};
  const NvmRule& nvm = *config.tiers.nvm;
  if (!is_private && !lost_nvm_directory(nvm).empty()) return {};
  if (config.encrypts_pool && !nvm.directory.empty() &&
      !encryption::look_at_rest(nvm.directory).is_encrypted())
    return fmt::format(
        "[[tier]] nvm (line {}): data in {} is not encrypted, and [pool] encrypt = \"yes\" wants it "
        "encrypted; take NUMA nodes, leave this tier out, or set encrypt = \"no\"",
        nvm.line, nvm.directory);
  return check_nvm(nvm);
}

std::string check_writes(const Config& config) {
  if (!config.writes_per_day || *config.writes_per_day >= wire::least_pool_bytes) return {};
  return fmt::format(
      "[pool] writes_per_day: nothing can be moved with {} a day; give at least {}, or leave it out",
      format_size(*config.writes_per_day), format_size(wire::least_pool_bytes));
}

}  // namespace

std::string check_pool_directory(const std::string& directory) {
  const int fd = open_unlinked(directory);
  if (fd < 0)
    return fmt::format("[pool] directory: no file can be made in {}: {}; make it, or name another directory",
                       directory, std::strerror(-fd));
  const UniqueFd closes(fd);
  return {};
}

std::string check_directories(const Config& config) {
  const std::string pool = check_pool_directory(config.pool_directory);
  return pool.empty() && config.tiers.nvm ? lost_nvm_directory(*config.tiers.nvm) : pool;
}

std::string warning_for_service(const Config& config) {
  const auto is_hidden = [](const std::string& named) {
    std::error_code failed;
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(named, failed);
    const std::string directory = (failed ? std::filesystem::path(named) : resolved).string() + "/";
    return directory.starts_with("/home/") || directory.starts_with("/root/") ||
           directory.starts_with("/run/user/");
  };
  if (!config.metrics.listen.empty() && !parse_metrics_address(config.metrics.listen).is_unix())
    return fmt::format(
        "[metrics] listen: the service cannot open {}, because terraced.service has PrivateNetwork=yes; "
        "leave it out and enable terraced-metrics.socket, which opens a port for it, or name a path",
        config.metrics.listen);
  const std::string nvm = config.tiers.nvm ? config.tiers.nvm->directory : "";
  for (const auto& [key, named] :
       {std::pair("[pool] directory", config.pool_directory), std::pair("[[tier]] nvm directory", nvm)})
    if (!named.empty() && is_hidden(named))
      return fmt::format(
          "{}: the service does not see {}, because terraced.service has ProtectHome=yes; name another "
          "directory, or set ProtectHome=no with `systemctl edit terraced`",
          key, named);
  return {};
}

std::string check_settings(const Config& config, bool is_private) {
  std::string error = check_budget(config);
  if (error.empty()) error = check_pool_size(config);
  if (error.empty()) error = check_writes(config);
  if (error.empty()) error = check_encryption(config, is_private);
  if (error.empty()) error = check_nvm_tier(config, is_private);
  if (is_private) return error;
  if (error.empty()) error = check_caps(config);
  if (error.empty()) error = check_caps_of_tiers(config);
  if (error.empty()) error = check_shares(config);
  if (error.empty()) error = check_group(config.group);
  return error;
}

}  // namespace terrace::daemon
