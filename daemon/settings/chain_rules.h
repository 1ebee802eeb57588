// What `[[tier]]` in terraced.toml says of the tiers between DRAM and the drive.
#pragma once

#include <optional>

#include "daemon/pools/nvm_rule.h"
#include "liballoc/wire/amount.h"

namespace terrace::daemon {

struct TierRules {
  std::optional<wire::Amount> compressed;  // of each job that names no tiers: of its DRAM budget
  std::optional<NvmRule> nvm;

  friend bool operator==(const TierRules&, const TierRules&) = default;
};

}  // namespace terrace::daemon
