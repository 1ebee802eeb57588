// terraced: from the command line to a running Server.
//
//   exit codes: 0 ended in order, 1 cannot serve, 2 wrong usage or settings
//
// It stays in the foreground and logs to standard error, as systemd wants it; `terrace run` puts a
// private daemon into the background. A private daemon leaves its settings beside the socket
// ("<socket>.toml") for the job that may have to start it again; one that a job started has no standard
// error worth the name and logs to "<socket>.log". It takes both away when it ends.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "daemon/base/journal_lines.h"
#include "daemon/server/server.h"
#include "daemon/settings/options.h"
#include "daemon/settings/settings_check.h"

namespace terrace::daemon {
namespace {

constexpr rlim_t wanted_descriptors = 8192;

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, wanted_descriptors));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

UniqueFd block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void log_to_standard_error(const Config& config) {
  auto logger = spdlog::stderr_logger_mt("terraced");
  if (is_journal(STDERR_FILENO, ::getenv("JOURNAL_STREAM")))
    logger->set_formatter(journal_lines());
  else
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e terraced %l: %v");
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_level(spdlog::level::from_str(config.log_level));
}

void log_to_file(const Config& config) try {
  auto logger = spdlog::basic_logger_mt("terraced-file", config.socket + ".log");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_level(spdlog::level::from_str(config.log_level));
} catch (const spdlog::spdlog_ex& error) {
  spdlog::warn("no log file: {}", error.what());
}

std::string settings_path(const Config& config) { return config.socket + ".toml"; }

void leave_settings(const Config& config) {
  const mode_t mask = ::umask(0077);
  std::ofstream file(settings_path(config), std::ios::trunc);
  file << to_toml(config);
  ::umask(mask);
}

void take_traces_away(const Config& config) {
  ::unlink(settings_path(config).c_str());
  ::unlink((config.socket + ".log").c_str());
}

// The file again, and over it the same command line.
std::optional<Config> reload_config(const std::vector<std::string>& arguments) {
  OptionsResult parsed = parse_options(arguments);
  if (parsed.error.empty()) return std::move(parsed.options.config);
  spdlog::error("{}; the old settings stay", parsed.error);
  return std::nullopt;
}

int serve(const Options& options, const std::vector<std::string>& arguments) {
  const UniqueFd signals = block_signals();
  raise_descriptor_limit();
  log_to_standard_error(options.config);
  Server server(
      {options.config, options.is_private, options.respawned, [&] { return reload_config(arguments); }});
  if (const std::string error = server.open(); !error.empty()) {
    if (server.socket_taken() && options.respawned) return 0;
    spdlog::error("{}", error);
    return 1;
  }
  if (options.respawned) log_to_file(options.config);
  if (options.is_private) leave_settings(options.config);
  server.watch_signals(signals.get());
  server.run();
  if (options.is_private) take_traces_away(options.config);
  return 0;
}

int check_config(const Options& options) {
  const std::string name = options.config_path.empty() ? "built-in settings" : options.config_path;
  std::string error = check_settings(options.config, options.is_private);
  if (error.empty() && !options.is_private) error = check_directories(options.config);
  const std::string warning = options.is_private ? "" : warning_for_service(options.config);
  if (!warning.empty()) fmt::print(stderr, "terraced: {}: warning: {}\n", name, warning);
  if (error.empty()) return fmt::print("{}: no errors\n", name), 0;
  fmt::print(stderr, "terraced: {}: {}\n", name, error);
  return 2;
}

int run(const std::vector<std::string>& arguments) {
  const OptionsResult parsed = parse_options(arguments);
  const Options& options = parsed.options;
  if (parsed.error.empty() && options.show_help) return fmt::print("{}", usage_text()), 0;
  if (parsed.error.empty() && options.show_version) return fmt::print("terraced {}\n", TERRACE_VERSION), 0;
  if (!parsed.error.empty()) {
    fmt::print(stderr, "terraced: {}\n", parsed.error);
    return 2;
  }
  return options.check_config ? check_config(options) : serve(options, arguments);
}

}  // namespace
}  // namespace terrace::daemon

int main(int argc, char** argv) {
  return terrace::daemon::run(std::vector<std::string>(argv + 1, argv + argc));
}
