// The command line of terraced.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/settings/config.h"

namespace terrace::daemon {

struct Options {
  Config config;            // the file's, changed by the command line
  std::string config_path;  // "" when no file is used
  bool is_private = false;
  bool respawned = false;
  bool check_config = false;
  bool show_help = false;
  bool show_version = false;
};

struct OptionsResult {
  Options options;
  std::string error;
};

// Reads the file that the arguments name (or the default one, if it exists), then applies the arguments.
OptionsResult parse_options(const std::vector<std::string>& arguments);

std::string usage_text();

}  // namespace terrace::daemon
