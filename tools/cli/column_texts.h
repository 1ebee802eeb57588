// What each column and JSON key of `status`, `jobs`, `tiers` and `events` is: a line for `-o help`. The terms
// are explained in docs/statistics.md.
#pragma once

#include <string_view>

namespace terrace::cli {

// "" for a name that nobody wrote a line about, which a test finds.
std::string_view about_column(std::string_view name);

}  // namespace terrace::cli
