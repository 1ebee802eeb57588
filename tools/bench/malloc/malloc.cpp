// terrace bench malloc: what an allocation costs under the preload, against stock malloc and what else is
// installed.
//
// Each competitor is a copy of this program under its LD_PRELOAD; rounds alternate their order, and medians
// are compared. The bare preload has no budget: this is what a job pays that needs no paging. `terrace run`
// gives one that is never reached. Targets: at most 3 ns over the next allocator for small sizes, at most 1
// µs for a recycled 16 MiB block, at most 0.1 µs for malloc and free of 1 MiB within a budget.
//
// With --simulated-heap the same competitors hand out addresses by the TiB to many threads (heap.h).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/malloc/heap.h"
#include "tools/bench/malloc/measure.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/measuring/targets.h"

namespace terrace::bench {
namespace {

constexpr const char* usage = R"(usage: terrace bench malloc [options]

Times malloc, calloc and realloc under stock malloc, under the Terrace preload, under `terrace run` with a budget of half of
the memory, and under jemalloc, mimalloc and tcmalloc where they are installed.

  --simulated-heap SIZE  times malloc and free on a large heap instead, such as 1T or 512G: the heap consists of large
                         blocks that nobody touches, and all threads allocate and free at once
  --threads N            share that heap among so many threads, 1024 at most (200)
  --rounds N             repeat the whole so often (5; with --simulated-heap 1)
  --json FILE            write all figures into this file)";

struct Competitor {
  std::string name;
  std::string preload;
  std::vector<std::string> launcher;  // what stands before the program
};

// The one beside this program; empty where only the benchmarks were built.
std::string terrace_command() {
  const auto path = std::filesystem::path(own_path()).parent_path() / "terrace";
  return std::filesystem::exists(path) ? path.string() : "";
}

std::vector<Competitor> competitors() {
  std::vector<Competitor> all = {{"stock", "", {}}, {"terrace", library_path("libterrace_preload.so"), {}}};
  if (const std::string terrace = terrace_command(); !terrace.empty())
    all.push_back({"run", "", {terrace, "run", "--dram", "50%", "--"}});
  const std::pair<const char*, const char*> others[] = {
      {"jemalloc", "libjemalloc.so.2"}, {"mimalloc", "libmimalloc.so.2"}, {"tcmalloc", "libtcmalloc.so.4"}};
  for (const auto& [name, file] : others) {
    for (const char* folder : {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib/"}) {
      if (!std::filesystem::exists(std::string(folder) + file)) continue;
      all.push_back({name, std::string(folder) + file, {}});
      break;
    }
  }
  return all;
}

// Nanoseconds by competitor and round, for one operation.
struct Operation {
  std::string name;
  std::map<std::string, std::vector<double>> ns;
};
using Samples = std::vector<Operation>;  // in the order of measurement

Operation& find_or_add(Samples* samples, const std::string& name) {
  for (Operation& operation : *samples) {
    if (operation.name == name) return operation;
  }
  return samples->emplace_back(Operation{name, {}});
}

void run_round(const std::vector<Competitor>& order, const std::vector<std::string>& what, Samples* samples) {
  for (const Competitor& competitor : order) {
    std::vector<std::string> command = competitor.launcher;
    command.push_back(own_path());
    command.insert(command.end(), what.begin(), what.end());
    const auto result = nlohmann::ordered_json::parse(run_captured(
        command, {{"LD_PRELOAD", competitor.preload}, {"TERRACE_DRAM", ""}, {"TERRACE_SOCKET", ""}}));
    for (const auto& [operation, ns] : result.items()) {
      find_or_add(samples, operation).ns[competitor.name].push_back(ns.get<double>());
    }
  }
}

// The difference is taken round by round: what slows the machine down for a while slows both.
double paired_difference(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < ours.size(); ++i) differences.push_back(ours[i] - theirs[i]);
  return median(differences);
}

nlohmann::ordered_json summarise(const Samples& samples) {
  nlohmann::ordered_json rows;
  for (const Operation& operation : samples) {
    nlohmann::ordered_json row;
    for (const auto& [name, values] : operation.ns) row["median_ns"][name] = median(values);
    const std::vector<double>& ours = operation.ns.at("terrace");
    const std::vector<double>& stock = operation.ns.at("stock");
    row["difference_ns"] = paired_difference(ours, stock);
    row["ratio"] = median(ours) / median(stock);
    rows[operation.name] = row;
  }
  return rows;
}

void print_table(const nlohmann::ordered_json& rows, const std::vector<Competitor>& all) {
  std::printf("%-32s", "ns per operation, medians");
  for (const Competitor& c : all) std::printf("%12s", c.name.c_str());
  std::printf("%14s\n", "terrace-stock");
  for (const auto& [operation, row] : rows.items()) {
    std::printf("%-32s", operation.c_str());
    for (const Competitor& c : all) std::printf("%12.1f", row["median_ns"][c.name].get<double>());
    std::printf("%+14.1f\n", row["difference_ns"].get<double>());
  }
}

// Rounds of all competitors, each of which runs this program with `what`.
nlohmann::ordered_json compare(const std::vector<Competitor>& all, const std::vector<std::string>& what,
                               long rounds) {
  Samples samples;
  for (long round = 0; round < rounds; ++round) {
    std::vector<Competitor> order = all;
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
    run_round(order, what, &samples);
  }
  return summarise(samples);
}

nlohmann::ordered_json targets_of(const nlohmann::ordered_json& rows) {
  nlohmann::ordered_json targets = nlohmann::ordered_json::array();
  const nlohmann::ordered_json& medians = rows["pair 1024 KiB"]["median_ns"];
  if (medians.contains("run"))
    targets.push_back(
        at_most("malloc and free of 1 MiB under terrace run, us", medians["run"].get<double>() / 1e3, 0.1));
  return targets;
}

int compare_operations(const Arguments& arguments) {
  const long rounds = arguments.number("--rounds", 5, 1, 99);
  const std::string path = arguments.text("--json", "");
  refuse_unwritable(path);
  const std::vector<Competitor> all = competitors();
  const nlohmann::ordered_json rows = compare(all, {"--measure"}, rounds);
  print_table(rows, all);
  const nlohmann::ordered_json targets = targets_of(rows);
  if (!targets.empty()) print_targets(targets);
  if (path.empty()) return 0;
  nlohmann::json report = begin_report("terrace-bench-malloc");
  report.update({{"rounds", rounds}, {"operations", rows}, {"targets", targets}});
  write_json(path, report);
  return 0;
}

int compare_simulated_heaps(const Arguments& arguments, std::size_t bytes) {
  const long rounds = arguments.number("--rounds", 1, 1, 99),
             threads = arguments.number("--threads", 200, 1, 1024);
  const std::string path = arguments.text("--json", "");
  refuse_unwritable(path);
  std::vector<Competitor> all = competitors();
  std::erase_if(
      all, [](const Competitor& c) { return c.name != "stock" && c.name != "terrace" && c.name != "run"; });
  const nlohmann::ordered_json rows =
      compare(all, {"--measure-heap", std::to_string(bytes), std::to_string(threads)}, rounds);
  print_table(rows, all);
  if (path.empty()) return 0;
  nlohmann::json report = begin_report("terrace-bench-malloc-heap");
  report.update({{"rounds", rounds}, {"threads", threads}, {"bytes", bytes}, {"operations", rows}});
  write_json(path, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  using namespace terrace::bench;  // NOLINT: this is their program
  if (argc == 2 && std::strcmp(argv[1], "--measure") == 0) {
    std::printf("%s\n", measure_malloc().dump().c_str());
    return 0;
  }
  if (argc == 4 && std::strcmp(argv[1], "--measure-heap") == 0) {
    std::printf("%s\n", measure_simulated_heap(std::stoull(argv[2]), std::stoull(argv[3])).dump().c_str());
    return 0;
  }
  const Arguments arguments(argc, argv, {"--rounds", "--json", "--simulated-heap", "--threads"}, usage);
  if (const std::size_t bytes = arguments.size("--simulated-heap", 0))
    return compare_simulated_heaps(arguments, bytes);
  return compare_operations(arguments);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
