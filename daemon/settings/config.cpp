// See config.h. One table of known keys drives everything: reading, "unknown key", and
// the list in that message.
#include "daemon/settings/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "daemon/settings/rule_tables.h"
#include "daemon/settings/tier_tables.h"
#include "daemon/settings/toml.h"

namespace terrace::daemon {
namespace {

constexpr std::size_t max_file_bytes = std::size_t{64} * 1024;
constexpr std::size_t max_value_bytes = 4096;

using Apply = std::optional<std::string> (*)(Config&, const std::string&);

struct Key {
  std::string_view table;
  std::string_view name;
  Apply apply;             // nothing, or what is wrong
  bool is_number = false;  // without quotes
};

std::optional<std::string> set_socket(Config& config, const std::string& value) {
  config.socket = value;
  return check_socket_path(value);
}

std::optional<std::string> set_group(Config& config, const std::string& value) {
  config.group = value;
  return std::nullopt;
}

std::optional<std::string> set_state(Config& config, const std::string& value) {
  config.state = value;
  return check_state_directory(value);
}

template <Amount Config::*amount>
std::optional<std::string> set_amount(Config& config, const std::string& value) {
  const auto read = wire::parse_amount(value);
  if (!read) return read.error;
  config.*amount = *read;
  return std::nullopt;
}

std::optional<std::string> set_pool_directory(Config& config, const std::string& value) {
  config.pool_directory = value;
  return check_directory(value);
}

template <std::optional<std::uint64_t> Config::*bytes>
std::optional<std::string> set_size(Config& config, const std::string& value) {
  const auto read = wire::parse_size(value);
  if (!read) return read.error;
  config.*bytes = *read;
  return std::nullopt;
}

template <bool Config::*choice>
std::optional<std::string> set_choice(Config& config, const std::string& value) {
  if (value != "yes" && value != "no") return fmt::format("\"{}\" is neither \"yes\" nor \"no\"", value);
  config.*choice = value == "yes";
  return std::nullopt;
}

std::optional<std::string> set_policy(Config& config, const std::string& value) {
  config.policy = value;
  return check_policy(value);
}

std::optional<std::string> set_metrics_address(Config& config, const std::string& value) {
  config.metrics.listen = value;
  if (value.empty()) return std::nullopt;
  std::string error = parse_metrics_address(value).error;
  return error.empty() ? std::nullopt : std::optional(std::move(error));
}

std::optional<std::string> set_metrics_jobs(Config& config, const std::string& value) {
  std::size_t jobs = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), jobs);
  if (read.ec != std::errc() || jobs == 0 || jobs > MetricsRule::most_jobs)
    return fmt::format("{} is not a whole number from 1 to {}", value, MetricsRule::most_jobs);
  config.metrics.jobs = jobs;
  return std::nullopt;
}

std::optional<std::string> set_log_level(Config& config, const std::string& value) {
  config.log_level = value;
  return check_log_level(value);
}

constexpr std::array key_table{
    Key{"daemon", "socket", set_socket},
    Key{"daemon", "group", set_group},
    Key{"daemon", "state", set_state},
    Key{"budget", "dram", set_amount<&Config::dram>},
    Key{"budget", "per_user", set_amount<&Config::per_user>},
    Key{"budget", "per_job", set_amount<&Config::per_job>},
    Key{"budget", "lend_idle", set_choice<&Config::lends_idle>},
    Key{"pool", "directory", set_pool_directory},
    Key{"pool", "size", set_size<&Config::pool_bytes>},
    Key{"pool", "per_user", set_amount<&Config::pool_per_user>},
    Key{"pool", "writes_per_day", set_size<&Config::writes_per_day>},
    Key{"pool", "writes_per_user", set_amount<&Config::writes_per_user>},
    Key{"pool", "encrypt", set_choice<&Config::encrypts_pool>},
    Key{"gpu", "memory", set_amount<&Config::gpu_memory>},
    Key{"gpu", "per_user", set_amount<&Config::gpu_per_user>},
    Key{"gpu", "lend_idle", set_choice<&Config::gpu_lends_idle>},
    Key{"planner", "policy", set_policy},
    Key{"metrics", "listen", set_metrics_address},
    Key{"metrics", "jobs", set_metrics_jobs, /*is_number=*/true},
    Key{"log", "level", set_log_level},
};

std::string known_tables() {
  std::string text;
  for (const Key& key : key_table) {
    const auto name = fmt::format("[{}]", key.table);
    if (text.find(name) == std::string::npos) text += (text.empty() ? "" : ", ") + name;
  }
  return text + ", [[share]], [[group]], [[job]], [[tier]]";
}

std::string known_keys(std::string_view table) {
  std::string text;
  for (const Key& key : key_table) {
    if (key.table == table) text += (text.empty() ? "" : ", ") + std::string(key.name);
  }
  return text;
}

const Key* find_key(std::string_view table, std::string_view name) {
  for (const Key& key : key_table) {
    if (key.table == table && key.name == name) return &key;
  }
  return nullptr;
}

std::optional<std::string> number_text(const toml::node& node) {
  const auto number = node.value_exact<std::int64_t>();
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

std::optional<std::string> apply_value(Config& config, std::string_view table, std::string_view name,
                                       const toml::node& node) {
  const Key* key = find_key(table, name);
  if (key == nullptr)
    return fmt::format("unknown key \"{}\" in [{}]; known there: {}", name, table, known_keys(table));
  const auto value = key->is_number ? number_text(node) : node.value_exact<std::string>();
  if (!value)
    return fmt::format("\"{}\" in [{}] must be {}", name, table,
                       key->is_number ? "a whole number without quotes" : "a string in quotes");
  if (value->size() > max_value_bytes || value->find('\0') != std::string::npos)
    return fmt::format("\"{}\" in [{}] is too long or has a NUL in it", name, table);
  const auto wrong = key->apply(config, *value);
  return wrong ? std::optional(fmt::format("{}.{}: {}", table, name, *wrong)) : std::nullopt;
}

std::string apply_table(Config& config, std::string_view table_name, const toml::table& table,
                        std::string_view file) {
  for (const auto& [name, node] : table) {
    if (auto wrong = apply_value(config, table_name, name.str(), node))
      return located(file, node.source(), *wrong);
  }
  return {};
}

std::string apply_root(Config& config, const toml::table& root, std::string_view file) {
  for (const auto& [name, node] : root) {
    if (name.str() == "tier") continue;
    if (is_rule_table(name.str())) {
      if (auto error = read_rules(name.str(), node, file, &config); !error.empty()) return error;
      continue;
    }
    const toml::table* table = node.as_table();
    if (table == nullptr || known_keys(name.str()).empty())
      return located(file, node.source(),
                     fmt::format("unknown {} \"{}\"; known tables: {}", table != nullptr ? "table" : "key",
                                 name.str(), known_tables()));
    if (auto error = apply_table(config, name.str(), *table, file); !error.empty()) return error;
  }
  return read_tiers(root, file, &config);
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == 0x7f || (byte < 0x20 && c != '\t' && c != '\n');
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

struct Readable {
  std::string text;   // what toml++ may see: ASCII, line by line as long as what was given
  std::string error;  // or what is wrong
};

// toml++ 3.3 runs into undefined behaviour on some characters that are not ASCII ("\u0432=", "\ufeef" behind
// a backslash) and on control characters: it gets ASCII alone. In comments other characters are masked; in
// strings
// "\u00e9" says the same. Strings over several lines, which no key needs, would hide where comments begin.
Readable readable(std::string_view text, std::string_view name) {
  Readable result{std::string(text), {}};
  int line = 1;
  char quote = 0;
  bool comment = false, escaped = false;
  const auto wrong = [&](std::string_view what) {
    return Readable{{}, fmt::format("{}:{}: {}", name, line, what)};
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool ends_line = c == '\n' || text.substr(i, 2) == "\r\n";
    if (is_control(c) && !ends_line) return wrong("a control character; remove it");
    if (!is_ascii(c) && !comment)
      return wrong("a character outside a comment that is not ASCII; write it as \\u00e9 in a string");
    if (!is_ascii(c)) result.text[i] = '.';
    if (c == '\n') {
      ++line;
      quote = 0;
      comment = escaped = false;
    } else if (escaped) {
      escaped = false;
    } else if (quote == 0 && !comment) {
      if (text.substr(i, 3) == "\"\"\"" || text.substr(i, 3) == "'''")
        return wrong("a string over several lines; write it on one, in single or double quotes");
      comment = c == '#';
      quote = c == '"' || c == '\'' ? c : '\0';
    } else if (c == quote) {
      quote = 0;
    } else {
      escaped = quote == '"' && c == '\\';
    }
  }
  return result;
}

}  // namespace

std::optional<std::string> check_socket_path(std::string_view path) {
  constexpr std::size_t longest = 107 - std::string_view(".lock").size();
  if (path.empty() || path.front() != '/') return "the socket must be an absolute path";
  if (path.size() > longest)
    return fmt::format("the socket path has {} characters; the kernel allows {} here", path.size(), longest);
  return std::nullopt;
}

std::optional<std::string> check_directory(std::string_view path) {
  if (path.empty() || path.front() != '/') return "the pool directory must be an absolute path";
  return std::nullopt;
}

std::optional<std::string> check_state_directory(std::string_view path) {
  if (path.empty() || path.front() != '/') return "the state directory must be an absolute path";
  return std::nullopt;
}

std::optional<std::string> check_policy(std::string_view name) {
  if (wire::is_policy(name)) return std::nullopt;
  return fmt::format("\"{}\" is not a policy; use one of {}", name, wire::policy_words);
}

std::optional<std::string> check_log_level(std::string_view level) {
  for (const std::string_view known : {"error", "warning", "info", "debug"}) {
    if (level == known) return std::nullopt;
  }
  return fmt::format("\"{}\" is not a log level; use error, warning, info or debug", level);
}

ConfigResult parse_config(std::string_view text, std::string_view name, const Config& base) {
  if (text.size() > max_file_bytes)
    return {base,
            fmt::format("{}:1: the file has over {} KiB; is it the right one?", name, max_file_bytes / 1024)};
  const Readable checked = readable(text, name);
  if (!checked.error.empty()) return {base, checked.error};
  try {
    const toml::table root = toml::parse(checked.text, name);
    ConfigResult result{base, {}};
    result.error = apply_root(result.config, root, name);
    if (!result.error.empty()) result.config = base;
    return result;
  } catch (const toml::parse_error& error) {
    return {base, located(name, error.source(), fmt::format("not valid TOML: {}", error.description()))};
  } catch (const std::logic_error&) {
    return {base, fmt::format("{}:1: not valid TOML; compare it with the example in terraced.toml(5)", name)};
  }
}

ConfigResult load_config(const std::string& path, const Config& base) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {base, fmt::format("{}: cannot be read; give --config a readable file", path)};
  std::string text(max_file_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return {base, fmt::format("{}: reading failed; give --config a regular file", path)};
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_config(text, path, base);
}

std::string to_toml(const Config& config) {
  toml::table daemon{{"socket", config.socket}};
  if (!config.group.empty()) daemon.insert("group", config.group);
  if (!config.state.empty()) daemon.insert("state", config.state);
  toml::table pool{{"directory", config.pool_directory},
                   {"encrypt", config.encrypts_pool ? "yes" : "no"},
                   {"per_user", wire::text_of(config.pool_per_user)},
                   {"writes_per_user", wire::text_of(config.writes_per_user)}};
  if (config.pool_bytes) pool.insert("size", fmt::format("{}B", *config.pool_bytes));
  if (config.writes_per_day) pool.insert("writes_per_day", fmt::format("{}B", *config.writes_per_day));
  const toml::table budget{{"dram", wire::text_of(config.dram)},
                           {"per_user", wire::text_of(config.per_user)},
                           {"per_job", wire::text_of(config.per_job)},
                           {"lend_idle", config.lends_idle ? "yes" : "no"}};
  const toml::table gpu{{"memory", wire::text_of(config.gpu_memory)},
                        {"per_user", wire::text_of(config.gpu_per_user)},
                        {"lend_idle", config.gpu_lends_idle ? "yes" : "no"}};
  toml::table metrics{{"jobs", static_cast<std::int64_t>(config.metrics.jobs)}};
  if (!config.metrics.listen.empty()) metrics.insert("listen", config.metrics.listen);
  toml::table root{{"daemon", daemon},
                   {"budget", budget},
                   {"pool", pool},
                   {"gpu", gpu},
                   {"planner", toml::table{{"policy", config.policy}}},
                   {"metrics", metrics},
                   {"log", toml::table{{"level", config.log_level}}}};
  insert_rules(config, &root);
  insert_tiers(config, &root);
  std::ostringstream text;
  text << root << '\n';
  return text.str();
}

}  // namespace terrace::daemon
