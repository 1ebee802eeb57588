// What the C++ benchmarks share: medians, running a competitor as a child with its own environment, the
// machine.
//
// A benchmark runs every competitor in the same invocation, as a fresh process (an allocator cannot be
// changed in a running one), in an order that alternates from round to round, and compares medians over the
// rounds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace terrace::bench {

using Variables = std::vector<std::pair<std::string, std::string>>;

double now_s();
double median(std::vector<double> values);
// The value below which the share `p` of the values lies.
double percentile(std::vector<double> values, double p);

// Runs a command with `variables` set (an empty value removes one) and returns what it wrote to standard
// output. A command that cannot be run or fails ends the benchmark with its name.
std::string run_captured(const std::vector<std::string>& command, const Variables& variables);
// The path of this program and of the libraries of its build or installation.
std::string own_path();
std::string library_path(const std::string& name);

// Of the checkout that this program was built in, with '+' if files were changed since; empty outside of one.
std::string built_from_commit();

nlohmann::json describe_machine();
// What every report begins with: format, version, this command (without --json FILE, which changes nothing
// and names a place of this machine), commit and machine.
nlohmann::json begin_report(const std::string& format);
// Ends the program with 2 where a report could not be written in the end; no path is none.
void refuse_unwritable(const std::string& json_path);
void write_json(const std::string& path, const nlohmann::json& report);
// The whole of a benchmark's main(): what `run` returns, or 1 once what it threw is on standard error.
int run_as_program(int (*run)(int argc, char** argv), int argc, char** argv);

// The value that follows `--name`, or `fallback`. Unknown options end the program with `usage`.
class Arguments {
 public:
  Arguments(int argc, char** argv, std::vector<std::string> known, const char* usage);
  std::string text(const std::string& name, const std::string& fallback) const;
  // Written as 64M, 1T and so on, in powers of 1024.
  std::size_t size(const std::string& name, std::size_t fallback) const;
  long number(const std::string& name, long fallback, long smallest, long largest) const;

 private:
  std::vector<std::pair<std::string, std::string>> given_;
};

}  // namespace terrace::bench
