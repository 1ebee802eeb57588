// [[tier]] in terraced.toml: one table for each kind of tier.
#pragma once

#include <string>
#include <string_view>

#include "daemon/settings/config.h"
#include "daemon/settings/toml.h"

namespace terrace::daemon {

// Replaces what `config` says by what `root`'s [[tier]]s say, if there are any. An nvme tier says where the
// pool is, and how large, in the place of [pool]. "" or "FILE:LINE: what; remedy".
std::string read_tiers(const toml::table& root, std::string_view file, Config* config);
// Those of `config`, where there are any.
void insert_tiers(const Config& config, toml::table* root);

}  // namespace terrace::daemon
