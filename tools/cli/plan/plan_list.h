// What `terrace plan --list` prints: everything that a user may name.
#pragma once

#include <string>

namespace terrace::cli {

// Every policy there is with its family and source.
std::string policy_table();

// Every machine that is built in, with its tiers and links.
std::string machine_table();

}  // namespace terrace::cli
