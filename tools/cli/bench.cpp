// `terrace bench NAME …` hands over to the benchmark itself: a program beside this one (terrace-bench-NAME)
// or a Python script of the share directory (bench/NAME.py). What is installed is what is listed.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>

#include "tools/cli/exit_code.h"
#include "tools/cli/install_layout.h"
#include "tools/cli/supervise.h"
#include "tools/cli/verbs.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* prefix = "terrace-bench-";
// Debian's interpreter, which has Debian's torch; another one may come first in PATH.
constexpr const char* python = "/usr/bin/python3";
// Scripts of the share directory that are benchmarks; the others there are their parts.
constexpr const char* scripts[] = {"training"};

std::set<std::string> available(const InstallLayout& layout) {
  std::set<std::string> names;
  for (const char* script : scripts)
    if (layout.share(fmt::format("bench/{}.py", script).c_str())) names.insert(script);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(layout.bin(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) names.insert(name.substr(std::strlen(prefix)));
  }
  return names;
}

int list(const std::set<std::string>& names) {
  for (const std::string& name : names) std::cout << name << '\n';
  return names.empty() ? complain(exit_not_found, "no benchmark is installed beside this program")
                       : int{exit_ok};
}

std::vector<std::string> command_for(const InstallLayout& layout, const std::vector<std::string>& words) {
  const fs::path program = layout.bin() / (prefix + words.front());
  std::vector<std::string> command{program.string()};
  if (!fs::exists(program))
    command = {python, *layout.share(fmt::format("bench/{}.py", words.front()).c_str())};
  command.insert(command.end(), words.begin() + 1, words.end());
  return command;
}

}  // namespace

int bench(const BenchOptions& options) {
  const InstallLayout layout = InstallLayout::of_this_program();
  const auto names = available(layout);
  if (options.words.empty()) return list(names);
  const std::string& name = options.words.front();
  if (!names.contains(name))
    return complain(exit_not_found,
                    fmt::format("no benchmark '{}'; there are: {}", name, fmt::join(names, ", ")));
  const auto command = command_for(layout, options.words);
  // The scripts start `terrace run` themselves, with this very binary.
  setenv("TERRACE_COMMAND", (layout.bin() / "terrace").c_str(), 1);
  return complain(exit_failure,
                  fmt::format("cannot start {}: {}", command.front(), std::strerror(execute(command))));
}

}  // namespace terrace::cli
