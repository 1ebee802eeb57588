// terrace: starts jobs and shows what happens. The words are parsed by one table (option_table.h), the verbs
// are functions (verbs.h), exit codes are listed in exit_code.h.
#include <cstdio>
#include <exception>
#include <iostream>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/words/completion.h"
#include "tools/cli/words/option_table.h"
#include "tools/cli/words/unknown_word.h"

namespace {

using namespace terrace::cli;

int dispatch(const CLI::App& table, const Options& options) {
  if (table.got_subcommand("run")) return run(options.run);
  if (table.got_subcommand("status")) return status(options.view);
  if (table.got_subcommand("jobs")) return jobs(options.view);
  if (table.got_subcommand("tiers")) return tiers(options.view);
  if (table.got_subcommand("events")) return events(options.view);
  if (table.got_subcommand("top")) return top(options.view);
  if (table.got_subcommand("set")) return set(options.change);
  if (table.got_subcommand("trim")) return trim(options.change);
  if (table.got_subcommand("pause")) return pause(options.change);
  if (table.got_subcommand("resume")) return resume(options.change);
  if (table.got_subcommand("timeline")) return timeline(options.record);
  if (table.got_subcommand("lifetimes")) return lifetimes(options.record);
  if (table.got_subcommand("doctor")) return doctor(options.doctor);
  if (table.got_subcommand("bench")) return bench(options.bench);
  if (table.got_subcommand("plan")) return plan(options.plan);
  if (table.got_subcommand("import")) return import_file(options.import);
  if (table.got_subcommand("version")) return version(options.version_json);
  if (!table.got_subcommand("completion")) return overview();
  std::cout << completion_script(table, options.shell);
  return exit_ok;
}

int parse_and_dispatch(std::vector<std::string> words) {
  Options options;
  const auto table = make_option_table(&options);
  auto command = split_command(*table, &words);
  (words.empty() || words.front() == "run" ? options.run.command : options.bench.words) = std::move(command);
  try {
    table->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 wants a vector
  } catch (const CLI::ExtrasError& error) {
    const std::string why = unknown_word(*table, words);
    if (!why.empty()) return complain(exit_usage, why);
    table->exit(error);
    return exit_usage;
  } catch (const CLI::ParseError& error) {
    return table->exit(error) == 0 ? exit_ok : exit_usage;
  }
  return dispatch(*table, options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = parse_and_dispatch(std::vector<std::string>(argv + 1, argv + argc));
    std::cout.flush();
    return std::cout ? code : exit_failure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "terrace: %s\n", error.what());
    return exit_failure;
  }
}
