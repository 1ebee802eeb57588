// What each column and JSON key of `status`, `jobs`, `tiers` and `events` is: a line for `-o help`. The terms
// are explained in docs/statistics.md.
#pragma once

#include <string_view>

namespace terrace::cli {

// "" for a name that nobody wrote a line about, which a test finds. One name under two headings may have two
// meanings: written_bytes of a job, and of a tier (IN).
std::string_view about_column(std::string_view name, std::string_view heading);

}  // namespace terrace::cli
