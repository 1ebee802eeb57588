// The one table of verbs and options: parsing, --help and shell completion all come from it.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/cli/base/options.h"

namespace terrace::cli {

inline constexpr const char* group_memory = "Memory";
inline constexpr const char* group_pool = "Pool (where data waits that does not fit)";
inline constexpr const char* group_gpu = "GPU";
inline constexpr const char* group_offload = "Offloading (PyTorch)";
inline constexpr const char* group_daemon = "Daemon";
inline constexpr const char* group_reports = "Reports";

// An option of `run` that takes a value: each but --limit, --plan and --json-summary mirrors an environment
// variable of the library (docs/environment.md), which is its default.
struct RunEntry {
  const char* group;  // in --help
  const char* name;
  std::string RunOptions::*value;
  const char* type;
  const char* variable;
  const char* about;
  std::vector<std::string> choices;
};
const std::vector<RunEntry>& run_entries();

// Verb names, options and where their values go. `options` must outlive the table.
std::unique_ptr<CLI::App> make_option_table(Options* options);

// `terrace run [options] [--] command…`: the command begins at the first word that is neither an option of
// `run` nor the value of one, so that its own options stay its own. Removes it from `words` and returns it.
std::vector<std::string> split_command(const CLI::App& table, std::vector<std::string>* words);

}  // namespace terrace::cli
