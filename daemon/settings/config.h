// The daemon's settings and the file they come from, /etc/terrace/terraced.toml.
//
// The file is read strictly: an unknown key, a wrong type or a value out of range is an error that
// names the file, the line and the remedy, and nothing of the file is used. daemon/terraced.toml
// is the documented example.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pools/nvm_rule.h"
#include "daemon/settings/metrics_rule.h"
#include "daemon/settings/share_rules.h"
#include "liballoc/wire/amount.h"
#include "liballoc/wire/period/policy_names.h"

namespace terrace::daemon {

using wire::Amount;

// What `[[tier]]` says of the tiers between DRAM and the drive.
struct TierRules {
  std::optional<Amount> compressed;  // of each job that names no tiers: of its DRAM budget
  std::optional<NvmRule> nvm;

  friend bool operator==(const TierRules&, const TierRules&) = default;
};

struct Config {
  std::string socket = "/run/terrace/terraced.sock";
  std::string group;  // that may connect, besides root; empty: the daemon's own
  std::string state;  // where what outlives a restart is kept; empty: records::state_directory()
  Amount dram = Amount::percent(90);
  Amount per_user = Amount::percent(50);  // of `dram`: the most that one user's jobs are promised
  Amount per_job = Amount::percent(100);  // of `dram`: the most that one job has, promised or lent
  bool lends_idle = true;                 // what jobs do not use is lent to others
  std::vector<ShareRule> shares;          // what single users get of it, and of what follows
  std::vector<GroupRule> groups;          // and members of groups together
  std::vector<JobRule> jobs;              // and their jobs by name
  TierRules tiers;                        // between DRAM and the pool
  std::string pool_directory = "/var/tmp";
  bool encrypts_pool = false;                    // on the drive; refused where that cannot be
  std::optional<std::uint64_t> pool_bytes;       // nothing: 64 GiB or 80% of what is free, the smaller
  std::optional<std::uint64_t> writes_per_day;   // to the pool's drive, of all jobs; nothing: no limit
  Amount writes_per_user = Amount::percent(50);  // of that, the most that one user's jobs write
  Amount pool_per_user = Amount::percent(100);   // of the pool, the most that one user's jobs are promised
  Amount gpu_memory = Amount::percent(90);       // of each GPU, what all heaps together hold
  Amount gpu_per_user = Amount::percent(100);    // of that, the most that one user's jobs have
  bool gpu_lends_idle = false;                   // what GPU memory jobs do not use is lent to others
  std::string policy{wire::default_policy};      // that plans for jobs which ask for none
  MetricsRule metrics;
  std::string log_level = "info";
};

inline constexpr std::string_view default_config_path = "/etc/terrace/terraced.toml";

struct ConfigResult {
  Config config;
  std::string error;  // "" or "FILE:LINE: what; remedy"
};

// `base` holds what the text does not mention. `name` is how messages call it.
ConfigResult parse_config(std::string_view text, std::string_view name, const Config& base);
ConfigResult load_config(const std::string& path, const Config& base);

// Nothing, or what is wrong with a value and what would be right: shared by the file and the command line.
std::optional<std::string> check_socket_path(std::string_view path);
std::optional<std::string> check_directory(std::string_view path);
std::optional<std::string> check_state_directory(std::string_view path);
std::optional<std::string> check_policy(std::string_view name);
std::optional<std::string> check_log_level(std::string_view level);

// The file form, from which a respawned private daemon learns what its predecessor was told.
std::string to_toml(const Config& config);

}  // namespace terrace::daemon
