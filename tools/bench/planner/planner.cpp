// terrace bench planner: every table that says what the planner is worth, on published data.
//
// Conformance with the systems that its policies come from, exact search beside MiniMalloc, large instances
// beside every other policy, PyTorch's own memory events, G10's workloads under G10's rules, recomputation
// beside DTR's simulator and Checkmate's optimum, the simulator's speed, and the judges themselves on random
// and on damaged plans. Searches run in processes of their own, one after the other, on one core.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/child.h"
#include "tools/bench/planner/parts.h"

namespace terrace::bench {
namespace {

constexpr const char* usage = R"(usage: terrace bench planner [options]

Measures the planner on reference data, one section after the other: conformance, random, damage, minimalloc, large, kineto,
g10, g10-times, g10-policies, swaps, recompute, recompute-chains, recompute-search, simulator, planning, profile. Only where
--only names it: capacities, the smallest capacity found and the largest proven infeasible for MiniMalloc's D and J, which
takes the last of --seconds for each.

  --only LIST       measure these sections
  --data DIR        the reference data are here ($TERRACE_REFERENCE_DATA, or ../shared/data of the checkout); sections
                    whose data are missing are skipped; CONTRIBUTING.md says where the data come from
  --minimalloc PROG compare with this program: `minimalloc` as google/minimalloc builds it, or another one that is
                    called as PROG --capacity=BYTES --input=FILE.csv --output=FILE.csv --timeout=SECONDSs, prints a
                    line 'Elapsed time SECONDS', and ends with 0 when it has found a placement
  --seconds LIST    section capacities: say what is known after so many seconds, rising (10,600; with --quick 1,2)
  --rounds N        repeat the whole so often (3; with --quick 1)
  --quick           search for a short time only: this shows that it works, and its figures say little
  --json FILE       write all figures into this file
  --markdown FILE   write the tables into this file)";

struct Section {
  const char* name;
  Json (*measure)(const PlannerOptions&);
  bool by_name = false;  // too long for a run of all sections: --only has to name it
};

constexpr Section sections[] = {{"conformance", measure_conformance},
                                {"random", measure_random},
                                {"damage", [](const PlannerOptions&) { return measure_damage(); }},
                                {"minimalloc", measure_minimalloc},
                                {"large", measure_large},
                                {"kineto", measure_kineto},
                                {"g10", measure_g10},
                                {"g10-times", measure_g10_times},
                                {"g10-policies", measure_g10_policies},
                                {"swaps", measure_swaps},
                                {"recompute", measure_recompute},
                                {"recompute-chains", measure_recompute_chains},
                                {"recompute-search", measure_recompute_search},
                                {"simulator", measure_simulator},
                                {"planning", measure_planning},
                                {"profile", measure_profiles},
                                {"capacities", measure_capacities, true}};

struct Options {
  PlannerOptions planner;
  std::string json, markdown, only, named_data, seconds;
};

Options parse(int argc, char** argv) {
  std::vector<char*> rest(argv, argv + argc);
  Options options;
  options.planner.quick = take_flag("--quick", &rest);
  const Arguments arguments(
      static_cast<int>(rest.size()), rest.data(),
      {"--rounds", "--seconds", "--only", "--data", "--minimalloc", "--json", "--markdown"}, usage);
  options.planner.rounds = arguments.number("--rounds", options.planner.quick ? 1 : 3, 1, 99);
  options.seconds = arguments.text("--seconds", "");
  const char* const usual = options.planner.quick ? "1,2" : "10,600";
  for (const std::string& word : words_of(options.seconds.empty() ? usual : options.seconds))
    options.planner.seconds.push_back(std::strtol(word.c_str(), nullptr, 10));
  options.named_data = arguments.text("--data", "");
  options.planner.data = options.named_data.empty() ? default_data() : options.named_data;
  options.planner.minimalloc = arguments.text("--minimalloc", "");
  options.json = arguments.text("--json", "");
  options.markdown = arguments.text("--markdown", "");
  options.only = arguments.text("--only", "");
  return options;
}

bool chosen(const Options& options, const Section& section) {
  const std::vector<std::string> only = words_of(options.only);
  if (only.empty()) return !section.by_name;
  return std::find(only.begin(), only.end(), section.name) != only.end();
}

constexpr long most_seconds = 86400;

bool are_limits(const std::vector<long>& seconds) {
  long before = 0;
  for (const long s : seconds) {
    if (s <= before || s > most_seconds) return false;
    before = s;
  }
  return before > 0;
}

// What is wrong with the options, said before anything is measured; empty if nothing.
std::string check(const Options& options) {
  for (const std::string& word : words_of(options.only)) {
    const auto named = [&](const Section& s) { return word == s.name; };
    if (std::none_of(std::begin(sections), std::end(sections), named))
      return "--only " + word + ": there is no such section; see --help";
  }
  if (!are_limits(options.planner.seconds))
    return fmt::format("--seconds must be a list of rising whole numbers from 1 to {}, such as 10,600",
                       most_seconds);
  if (std::string wrong = wrong_data(options.named_data); !wrong.empty()) return wrong;
  if (!options.planner.minimalloc.empty() && !std::filesystem::exists(options.planner.minimalloc))
    return "--minimalloc " + options.planner.minimalloc + " does not exist";
  for (const std::string& path : {options.json, options.markdown})
    if (!path.empty() && !std::ofstream(path, std::ios::app)) return path + " cannot be written";
  return "";
}

// Paths belong to the machine, not to the result.
std::string command_line(const Options& options) {
  std::string command = "terrace bench planner";
  if (options.planner.quick) command += " --quick";
  command += fmt::format(" --rounds {}", options.planner.rounds);
  if (!options.only.empty()) command += " --only " + options.only;
  if (!options.seconds.empty()) command += " --seconds " + options.seconds;
  if (!options.planner.minimalloc.empty()) command += " --minimalloc PROGRAM";
  return command;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (file.flush()) return;
  std::fprintf(stderr, "bench: --markdown %s: cannot be written\n", path.c_str());
  std::exit(1);
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (const std::string wrong = check(options); !wrong.empty()) {
    std::fprintf(stderr, "bench: %s\n", wrong.c_str());
    return 2;
  }
  note_missing(options.planner.data);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Json report = begin_report("terrace-bench-planner");
  report["command"] = command_line(options);
  report["rounds"] = options.planner.rounds;
  std::string markdown;
  for (const Section& part : sections) {
    if (!chosen(options, part)) continue;
    const Json measured = report["sections"][part.name] = part.measure(options.planner);
    std::fputs(as_text(measured).c_str(), stdout);
    markdown += as_markdown(measured);
  }
  if (options.planner.quick) std::puts("With --quick the searches are short and the figures mean little.");
  if (!options.json.empty()) write_json(options.json, report);
  if (!options.markdown.empty()) write_text(options.markdown, markdown);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  if (argc > 1 && std::strcmp(argv[1], "--child") == 0)
    return terrace::bench::child_main(std::vector<std::string>(argv + 2, argv + argc));
  return terrace::bench::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
