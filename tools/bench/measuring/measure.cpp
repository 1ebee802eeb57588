#include "tools/bench/measuring/measure.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <thread>

extern char** environ;

namespace terrace::bench {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  for (const auto& [name, value] : variables) {
    const std::string prefix = name + "=";
    std::erase_if(all, [&](const std::string& entry) { return entry.starts_with(prefix); });
    if (!value.empty()) all.push_back(prefix + value);
  }
  return all;
}

[[noreturn]] void stop(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t got = 0; (got = read(fd, piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(got));
  return text;
}

std::string first_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_not_of(" \t:", key.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const auto at =
      std::min(values.size() - 1, static_cast<std::size_t>(p * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

std::string run_captured(const std::vector<std::string>& command, const Variables& variables) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) stop("no pipe");
  std::vector<std::string> words = command;
  std::vector<std::string> environment = environment_with(variables);
  const std::vector<char*> arguments = pointers_to(&words);
  const std::vector<char*> settings = pointers_to(&environment);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execvpe(arguments[0], arguments.data(), settings.data());
    _exit(127);
  }
  close(ends[1]);
  std::string output = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    stop(command[0] + " failed (wait status " + std::to_string(status) + ")");
  }
  return output;
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::string library_path(const std::string& name) {
  const auto bin = std::filesystem::path(own_path()).parent_path();
  for (const char* folder :
       {"../lib", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu", "../lib/terrace"}) {
    const auto candidate = bin / folder / name;
    if (std::filesystem::exists(candidate)) return std::filesystem::canonical(candidate).string();
  }
  stop(name + " is not beside " + bin.string() + ": build or install it");
}

std::string built_from_commit() {
  const std::string folder = std::filesystem::path(own_path()).parent_path().string();
  std::string text = run_captured({"sh", "-c",
                                   "cd \"$FOLDER\" && git rev-parse --short=12 HEAD 2>/dev/null && git "
                                   "diff-index --quiet HEAD 2>/dev/null || echo +"},
                                  {{"FOLDER", folder}});
  std::erase(text, '\n');
  return text == "+" ? "" : text;
}

nlohmann::json describe_machine() {
  utsname system{};
  uname(&system);
  return {{"cpu", first_value("/proc/cpuinfo", "model name")},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * 4096},
          {"kernel", system.release}};
}

namespace {

// "terrace-bench-pager" is started as "terrace bench pager".
std::string own_command() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) return "";
  std::string command = std::filesystem::path(words[0]).filename().string();
  constexpr std::string_view prefix = "terrace-bench-";
  if (command.starts_with(prefix)) command = "terrace bench " + command.substr(prefix.size());
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--json")
      ++i;
    else
      command += " " + words[i];
  }
  return command;
}

}  // namespace

nlohmann::json begin_report(const std::string& format) {
  nlohmann::json report = {
      {"format", format}, {"version", 1}, {"command", own_command()}, {"machine", describe_machine()}};
  if (const std::string commit = built_from_commit(); !commit.empty()) report["commit"] = commit;
  return report;
}

void refuse_unwritable(const std::string& json_path) {
  if (json_path.empty() || std::ofstream(json_path, std::ios::app)) return;
  std::fprintf(stderr, "bench: --json %s: cannot be written\n", json_path.c_str());
  std::exit(2);
}

void write_json(const std::string& path, const nlohmann::json& report) {
  std::ofstream file(path);
  file << report.dump(2) << "\n";
  if (!file.good()) stop("--json " + path + ": cannot be written");
}

int run_as_program(int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

Arguments::Arguments(int argc, char** argv, std::vector<std::string> known, const char* usage) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (std::find(known.begin(), known.end(), name) == known.end() || i + 1 == argc) {
      const bool asked = name == "--help";
      std::fprintf(asked ? stdout : stderr, "%s\n", usage);
      std::exit(asked ? 0 : 2);
    }
    given_.emplace_back(name, argv[i + 1]);
  }
}

std::string Arguments::text(const std::string& name, const std::string& fallback) const {
  for (const auto& [given, value] : given_) {
    if (given == name) return value;
  }
  return fallback;
}

std::size_t Arguments::size(const std::string& name, std::size_t fallback) const {
  const std::string value = text(name, "");
  if (value.empty()) return fallback;
  const std::string units = "KMGT";
  char* end = nullptr;
  const unsigned long parsed = std::strtoul(value.c_str(), &end, 10);
  const std::size_t unit = *end == '\0' ? std::string::npos : units.find(*end);
  if (unit != std::string::npos && end[1] == '\0' && parsed >= 1 && parsed <= 1024)
    return parsed << (10 * (unit + 1));
  std::fprintf(stderr, "bench: %s %s: 1 to 1024 and a unit, as in 64M, 512G or 1T\n", name.c_str(),
               value.c_str());
  std::exit(2);
}

long Arguments::number(const std::string& name, long fallback, long smallest, long largest) const {
  const std::string value = text(name, "");
  if (value.empty()) return fallback;
  char* end = nullptr;
  const long parsed = std::strtol(value.c_str(), &end, 10);
  if (*end == '\0' && parsed >= smallest && parsed <= largest) return parsed;
  std::fprintf(stderr, "bench: %s %s: a number from %ld to %ld\n", name.c_str(), value.c_str(), smallest,
               largest);
  std::exit(2);
}

}  // namespace terrace::bench
