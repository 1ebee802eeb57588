// See options.h. One table of options drives parsing and the help text.
#include "daemon/settings/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

namespace terrace::daemon {
namespace {

// A flag's value is "". Returns what is wrong, or nothing.
using ApplyOption = std::optional<std::string> (*)(Options&, const std::string&);

struct Option {
  std::string_view name;
  std::string_view value;  // its name in the help; "" for a flag
  std::string_view help;   // "" hides it
  ApplyOption apply;
};

template <bool Options::*flag>
std::optional<std::string> set_flag(Options& options, const std::string&) {
  options.*flag = true;
  return std::nullopt;
}

std::optional<std::string> set_config(Options& options, const std::string& value) {
  options.config_path = value;
  return std::nullopt;
}

std::optional<std::string> set_socket(Options& options, const std::string& value) {
  options.config.socket = value;
  return check_socket_path(value);
}

template <Amount Config::*field>
std::optional<std::string> set_amount(Options& options, const std::string& value) {
  const auto amount = wire::parse_amount(value);
  if (!amount) return amount.error;
  options.config.*field = *amount;
  return std::nullopt;
}

std::optional<std::string> set_pool(Options& options, const std::string& value) {
  options.config.pool_directory = value;
  return check_directory(value);
}

std::optional<std::string> set_state(Options& options, const std::string& value) {
  options.config.state = value;
  return check_state_directory(value);
}

template <std::optional<std::uint64_t> Config::*field>
std::optional<std::string> set_size(Options& options, const std::string& value) {
  const auto bytes = wire::parse_size(value);
  if (!bytes) return bytes.error;
  options.config.*field = *bytes;
  return std::nullopt;
}

std::optional<std::string> set_policy(Options& options, const std::string& value) {
  options.config.policy = value;
  return check_policy(value);
}

std::optional<std::string> set_log_level(Options& options, const std::string& value) {
  options.config.log_level = value;
  return check_log_level(value);
}

constexpr std::array option_table{
    Option{"--config", "FILE", "read this settings file (default /etc/terrace/terraced.toml if it exists)",
           set_config},
    Option{"--socket", "PATH", "let jobs and the terrace command connect here", set_socket},
    Option{"--dram", "SIZE|PCT%", "let all jobs together keep at most this much DRAM",
           set_amount<&Config::dram>},
    Option{"--per-user", "SIZE|PCT%", "promise one user's jobs at most this much of --dram",
           set_amount<&Config::per_user>},
    Option{"--per-job", "SIZE|PCT%", "give one job at most this much of --dram, promised or lent",
           set_amount<&Config::per_job>},
    Option{"--pool", "DIR", "make jobs' unlinked pool files in this directory", set_pool},
    Option{"--pool-size", "SIZE", "let all pool files together take at most this much",
           set_size<&Config::pool_bytes>},
    Option{"--writes-per-day", "SIZE", "let all jobs write at most this much to the pool's drive in a day",
           set_size<&Config::writes_per_day>},
    Option{"--writes-per-user", "SIZE|PCT%",
           "let one user's jobs write at most this much of --writes-per-day",
           set_amount<&Config::writes_per_user>},
    Option{"--state", "DIR", "keep the count of written bytes here over a restart", set_state},
    Option{"--policy", "NAME", "plan by this policy for jobs that ask for none; reactive plans nothing",
           set_policy},
    Option{"--log-level", "LEVEL", "log this much: error, warning, info or debug", set_log_level},
    Option{"--private", "", "serve the user who started it, and end when nobody needs it",
           set_flag<&Options::is_private>},
    Option{"--respawned", "", "", set_flag<&Options::respawned>},  // by a job whose private daemon died
    Option{"--check-config", "", "check the settings and exit", set_flag<&Options::check_config>},
    Option{"--version", "", "print the version and exit", set_flag<&Options::show_version>},
    Option{"--help", "", "print this and exit", set_flag<&Options::show_help>},
};

struct Argument {
  const Option* option;
  std::string value;
};

const Option* find_option(std::string_view name) {
  for (const Option& option : option_table) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

// "--name VALUE" and "--name=VALUE".
std::string split_arguments(const std::vector<std::string>& words, std::vector<Argument>* out) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const Option* option = find_option(name);
    if (option == nullptr) return fmt::format("unknown option {}; see terraced --help", name);
    const bool has_value = equals != std::string::npos;
    if (option->value.empty() && has_value) return fmt::format("{} takes no value", name);
    if (!option->value.empty() && !has_value && i + 1 == words.size())
      return fmt::format("{} needs a value: {} {}", name, name, option->value);
    std::string value = has_value ? words[i].substr(equals + 1) : "";
    if (!option->value.empty() && !has_value) value = words[++i];
    out->push_back({option, std::move(value)});
  }
  return {};
}

std::string read_file(const std::vector<Argument>& arguments, Options* options) {
  for (const Argument& argument : arguments) {
    if (argument.option->name == "--config") options->config_path = argument.value;
    if (argument.option->name == "--private") options->is_private = true;
  }
  // A private daemon is told everything by whoever starts it.
  const std::string standard(default_config_path);
  if (options->config_path.empty() && !options->is_private && ::access(standard.c_str(), F_OK) == 0)
    options->config_path = standard;
  if (options->config_path.empty()) return {};
  ConfigResult loaded = load_config(options->config_path, options->config);
  options->config = std::move(loaded.config);
  return loaded.error;
}

}  // namespace

OptionsResult parse_options(const std::vector<std::string>& words) {
  OptionsResult result;
  std::vector<Argument> arguments;
  result.error = split_arguments(words, &arguments);
  if (result.error.empty()) result.error = read_file(arguments, &result.options);
  for (const Argument& argument : arguments) {
    if (!result.error.empty()) break;
    const auto wrong = argument.option->apply(result.options, argument.value);
    if (wrong) result.error = fmt::format("{}: {}", argument.option->name, *wrong);
  }
  return result;
}

std::string usage_text() {
  std::string text =
      "Usage: terraced [options]\n"
      "Shares DRAM and pool space between training jobs; see terraced(8) and terraced.toml(5).\n\n";
  for (const Option& option : option_table) {
    if (option.help.empty()) continue;
    text += fmt::format("  {:<27} {}\n", fmt::format("{} {}", option.name, option.value), option.help);
  }
  return text;
}

}  // namespace terrace::daemon
