// See division.h.
#include "daemon/server/division.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/base/machine.h"
#include "daemon/base/size.h"
#include "daemon/settings/tier_rules.h"
#include "tiers/records/state_directory.h"

namespace terrace::daemon {

std::uint64_t Division::budget_bytes() const { return config_.dram.of(memory_limit_bytes()); }

PoolQuota Division::pool_quota() const {
  constexpr std::uint64_t default_bytes = 64ULL << 30;
  if (config_.pool_bytes) return *config_.pool_bytes;
  return {std::min(default_bytes, free_disk_bytes(config_.pool_directory) / 10 * 8), true};
}

// A private daemon without a limit leaves nothing in its user's home.
void Division::keep_writes(Writes* writes) const {
  if (!is_private_) writes->watch(DriveCounter(config_.pool_directory));
  if (is_private_ && !config_.writes_per_day) return;
  const std::string state = config_.state.empty() ? records::state_directory() : config_.state;
  if (const std::string problem = writes->open(state, config_.pool_directory); !problem.empty())
    spdlog::warn("{}; until then, what is written is counted from this start on", problem);
}

// Of one user's own daemon: he needs no protection from himself.
UserShares Division::alone(bool lends_idle) {
  UserShares alone;
  alone.set_lends_idle(lends_idle);
  return alone;
}

UserShares Division::shares_of(Resource resource) const {
  if (is_private_) return alone(resource == Resource::gpu || config_.lends_idle);
  SharesResult result = daemon::shares_of(config_, resource, budget_bytes());
  if (!result.error.empty())
    spdlog::error("{}; until these rules change, no job is given anything", result.error);
  return std::move(result.shares);
}

void Division::divide_pool(Pools* pools) const {
  UserShares users = shares_of(Resource::pool);
  if (!is_private_) users.set_cap(config_.pool_per_user.of(pools->quota_bytes()));
  pools->set_users(std::move(users));
}

void Division::divide(Registry* registry) const {
  Arbiter& arbiter = registry->change_arbiter();
  arbiter.set_machine_budget(pressure_.of(budget_bytes()));
  arbiter.set_users(shares_of(Resource::dram));
  divide_pool(&registry->pools());
  registry->change_gpu().set_rules(is_private_ ? Amount::percent(100) : config_.gpu_memory,
                                   shares_of(Resource::gpu), *whole_bytes(config_, Resource::gpu, 0));
  registry->writes().set_limit(config_.writes_per_day.value_or(no_limit), shares_of(Resource::writes));
}

void Division::follow_pressure(Registry* registry, std::uint64_t now_ns) {
  if (!pressure_.is_due(now_ns)) return;  // to ask for the budget is to read files
  const std::uint64_t budget = budget_bytes();
  if (!pressure_.look(budget, now_ns)) return;
  registry->change_arbiter().set_machine_budget(pressure_.of(budget));
  spdlog::warn(
      "the machine, or the cgroup around terraced, is or was short of memory: terraced hands out {} of its "
      "DRAM budget of {}",
      format_size(pressure_.of(budget)), format_size(budget));
}

}  // namespace terrace::daemon
