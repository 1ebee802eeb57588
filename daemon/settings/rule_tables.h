// [[share]], [[group]] and [[job]] in terraced.toml: any number of tables, each about one user, one group, or
// the jobs of one.
#pragma once

#include <string>
#include <string_view>

#include "daemon/settings/config.h"
#include "daemon/settings/toml.h"

namespace terrace::daemon {

// Whether this is the name of such tables.
bool is_rule_table(std::string_view name);
// Replaces what `config` says by what they say. "" or "FILE:LINE: what; remedy".
std::string read_rules(std::string_view name, const toml::node& node, std::string_view file, Config* config);
// Those of `config`, where there are any.
void insert_rules(const Config& config, toml::table* root);

}  // namespace terrace::daemon
