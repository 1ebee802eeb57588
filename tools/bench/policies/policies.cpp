// terrace bench policies: every policy that moves tensors, and those that only recompute, in one table a
// group.
//
// Each policy plans each step of a group for the same machine; one simulator times the plans, one judge
// checks them, and a linear programme says what no plan can beat. The made-up groups need no reference data.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/bench/measuring/measure.h"
#include "tools/bench/policies/parts.h"

namespace terrace::bench {
namespace {

constexpr const char* usage = R"(usage: terrace bench policies [options]

Compares all policies that move tensors by the slowdown of a simulated step. A table gives, for each group of steps, the
geometric mean, the worst case, the least slowdown that any plan can have, and the time to plan.

Groups: g10-a100-g10, g10-a100-ssd, dtr-80, dtr-60, dtr-40, made-up-60, sparse-60, overlapped-60, adam-100, adam-80,
adam-60, variants-80, variants-60, recompute-80, recompute-60, recompute-40, memories, drift, together. Policies that update parameters on
the CPU take part in the adam groups alone. Some policies with their moves compressed, or with what rests encoded, take part
in sparse-60, overlapped-60 and the two relu groups alone. The group memories has a table of its own: it compares policies for two memories, of
which the slower one is used in place. So has drift: it plans four groups with joint, lets the operations' times
drift, and changes the plans; and together: joint beside what only moves and what only recomputes.
Only where --only names them, since they take minutes: g10-a100-g10-half, g10-a100-g10-double, g10-a100-ssd-half,
g10-a100-ssd-double, which are G10's steps scaled to half and to twice the batch, not measured ones;
g10-a100-g10-placed and g10-a100-ssd-placed, whose memory has no pages, so that plans need addresses; g10-host16 and
g10-host16-joined, which have less host memory, without and with a route from there to the SSD; relu-60 and relu-bits-60,
made-up steps with ReLU and pooling, without and with a codec that keeps one bit a value.

  --only LIST      compare in these groups
  --data DIR       the reference data are here ($TERRACE_REFERENCE_DATA, or ../shared/data of the checkout); groups
                   whose data are missing are skipped; CONTRIBUTING.md says where the data come from
  --by-deadline    each link brings back first what is needed first, instead of what was asked for first; the plans
                   expect the latter all the same
  --plot PREFIX    draw all tables into PREFIX.svg and PREFIX.png
  --quick          one step of each group and a coarse bound: this shows that it works, and its figures say little
  --json FILE      write all figures into this file)";

struct Options {
  PlannerOptions planner;
  std::string json, plot, only, named_data;
};

Options parse(int argc, char** argv) {
  std::vector<char*> rest(argv, argv + argc);
  Options options;
  options.planner.quick = take_flag("--quick", &rest);
  options.planner.in_order = take_flag("--by-deadline", &rest) ? wire::Order::deadline : wire::Order::asked;
  const Arguments arguments(static_cast<int>(rest.size()), rest.data(),
                            {"--only", "--data", "--json", "--plot"}, usage);
  options.named_data = arguments.text("--data", "");
  options.planner.data = options.named_data.empty() ? default_data() : options.named_data;
  options.json = arguments.text("--json", "");
  options.plot = arguments.text("--plot", "");
  options.only = arguments.text("--only", "");
  return options;
}

// What is wrong with the options, said before anything is measured; empty if nothing.
std::string check(const Options& options) {
  std::vector<std::string> names = policy_group_names();
  names.emplace_back(memories_group);
  names.emplace_back(drift_group);
  names.emplace_back(together_group);
  for (const std::string& word : words_of(options.only))
    if (std::find(names.begin(), names.end(), word) == names.end())
      return "--only " + word + ": there is no such group; see --help";
  return wrong_data(options.named_data);
}

bool chosen(const Options& options, const std::string& name) {
  const std::vector<std::string> only = words_of(options.only);
  if (only.empty()) return !is_by_name(name);
  return std::find(only.begin(), only.end(), name) != only.end();
}

// Paths belong to the machine, not to the result.
std::string command_line(const Options& options) {
  std::string command = "terrace bench policies";
  if (options.planner.quick) command += " --quick";
  if (options.planner.in_order == wire::Order::deadline) command += " --by-deadline";
  if (!options.only.empty()) command += " --only " + options.only;
  return command;
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (const std::string wrong = check(options); !wrong.empty()) {
    std::fprintf(stderr, "bench: %s\n", wrong.c_str());
    return 2;
  }
  refuse_unwritable(options.json);
  note_missing(options.planner.data);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Json report = begin_report("terrace-bench-policies");
  report["command"] = command_line(options);
  std::vector<Json> sections;
  Json memories;
  for (const std::string& name : policy_group_names()) {
    if (!chosen(options, name)) continue;
    const Json measured = measure_group(options.planner, policy_group(options.planner, name));
    std::fputs(as_text(measured).c_str(), stdout);
    report["sections"][name] = measured;
    sections.push_back(measured);
  }
  if (chosen(options, memories_group)) {
    memories = measure_memories(options.planner);
    report["sections"][memories_group] = memories;
    std::fputs(as_text(memories).c_str(), stdout);
  }
  if (chosen(options, drift_group)) {
    report["sections"][drift_group] = measure_drift(options.planner);
    std::fputs(as_text(report["sections"][drift_group]).c_str(), stdout);
  }
  if (chosen(options, together_group)) {
    report["sections"][together_group] = measure_together(options.planner);
    std::fputs(as_text(report["sections"][together_group]).c_str(), stdout);
  }
  if (options.planner.quick)
    std::puts("With --quick one step stands for a group, and the bounds are coarse.");
  if (!options.json.empty()) write_json(options.json, report);
  const std::string wrong = options.plot.empty() ? "" : plot_groups(options.plot, sections, memories);
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "bench: --plot %s: %s\n", options.plot.c_str(), wrong.c_str());
  return 1;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) { return terrace::bench::run_as_program(terrace::bench::run, argc, argv); }
