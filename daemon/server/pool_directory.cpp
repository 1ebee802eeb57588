// See pool_directory.h.
#include "daemon/server/pool_directory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "daemon/base/size.h"
#include "daemon/settings/settings_check.h"

namespace terrace::daemon {

std::string PoolDirectory::open(Pools* pools) {
  const std::string lost = is_private_ ? std::string() : check_pool_directory(config_.pool_directory);
  if (lost.empty()) return encrypt(pools);
  spdlog::warn("{}; until it is there, jobs have no pool", lost);
  pools->close(lost);
  return {};
}

std::string PoolDirectory::encrypt(Pools* pools) const {
  if (!config_.encrypts_pool) return {};
  if (const std::string problem = pools->encrypt(); !problem.empty())
    return fmt::format("[pool] encrypt: {}; or set encrypt = \"no\"", problem);
  if (!pools->takes_direct_io())
    spdlog::warn(
        "[pool] encrypt: files of {} go through the page cache, which holds a second copy of what jobs "
        "keep there; mount that file system with inlinecrypt, or put it on dm-crypt",
        config_.pool_directory);
  return {};
}

void PoolDirectory::look_again(Registry* registry, const Division& division, std::uint64_t now_ns) {
  constexpr std::uint64_t pause_ns = 1'000'000'000;
  Pools* const pools = &registry->pools();
  if (!pools->is_closed() || now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + pause_ns;
  if (!check_pool_directory(config_.pool_directory).empty()) return;
  if (const std::string problem = encrypt(pools); !problem.empty()) {
    if (pools->problem() != problem) spdlog::error("{}; until then, jobs have no pool", problem);
    return pools->close(problem);
  }
  pools->set_quota(division.pool_quota());
  division.keep_writes(&registry->writes());
  division.divide_pool(pools);
  pools->close({});
  spdlog::info("the pool directory {} is back: pools of {}", config_.pool_directory,
               format_size(pools->quota_bytes()));
}

}  // namespace terrace::daemon
