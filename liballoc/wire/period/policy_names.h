// The policies that a job may ask for, and a daemon may have as its own (`terrace run --policy`,
// TERRACE_POLICY, `[planner] policy`): one list for all who check a name.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace terrace::wire {

inline constexpr std::array<std::string_view, 5> policy_names = {"reactive", "sentinel_interval",
                                                                 "capuchin_swap", "g10", "joint"};
// Follows no plan: the job neither learns a period nor sends one.
inline constexpr std::string_view reactive_policy = policy_names[0];
inline constexpr std::string_view default_policy = policy_names[3];
// The same list in messages.
inline constexpr char policy_words[] = "reactive, sentinel_interval, capuchin_swap, g10, joint";

constexpr bool is_policy(std::string_view name) noexcept {
  return std::find(policy_names.begin(), policy_names.end(), name) != policy_names.end();
}

}  // namespace terrace::wire
