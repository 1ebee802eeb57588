// What [[share]], [[group]] and [[job]] may say of each resource beside what the other tables say of its
// whole, and what that comes to.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/settings/config.h"

namespace terrace::daemon {

// Of a whole that is a part of each device: rules are then parts of it, and are resolved for one of so many
// bytes (UserShares::scaled()).
inline constexpr std::uint64_t nominal_gpu_bytes = std::uint64_t{1} << 40;

// Of what the rules give parts. Nothing: it is not known; then the rules say nothing of it, or amounts that
// need no whole (wrong_tier_rules()).
std::optional<std::uint64_t> whole_bytes(const Config& config, Resource resource, std::uint64_t dram_bytes);

// "" or the first rule that cannot hold, and the remedy: an amount of a whole that the settings do not say,
// or more of one than there is. Reads the system's databases, as resolve_shares() does.
std::string wrong_tier_rules(const Config& config, std::uint64_t dram_bytes);

// What the rules give of a resource, with the cap for all users and, of DRAM, for all jobs. Where rules of
// it cannot hold, nobody is given anything and `error` says why.
SharesResult shares_of(const Config& config, Resource resource, std::uint64_t dram_bytes);

}  // namespace terrace::daemon
