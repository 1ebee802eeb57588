// The daemon's "status" answer as flat rows that tables, JSON and `top` share. Durations become seconds here,
// and what a process does not know (a pager that never ran) stays absent.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "tools/cli/terminal/table.h"

namespace terrace::cli {

std::span<const Column> job_columns();
std::span<const Column> tier_columns();
std::span<const Column> status_columns();

// One row per job, tier, daemon of one status answer.
Rows job_rows(const nlohmann::json& status);
Rows tier_rows(const nlohmann::json& status);
nlohmann::json status_row(const nlohmann::json& status);

// What tells rows apart from one look to the next.
std::string job_key(const nlohmann::json& row);
std::string tier_key(const nlohmann::json& row);
std::string daemon_key(const nlohmann::json& row);

}  // namespace terrace::cli
