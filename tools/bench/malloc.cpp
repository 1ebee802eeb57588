// terrace bench malloc: what an allocation costs under the preload, against stock malloc and what else is
// installed.
//
// Each competitor is a copy of this program under its LD_PRELOAD; rounds alternate their order, and medians
// are compared. There is no budget here: this is what a job pays that needs no paging. Targets: at most 3 ns
// over the next allocator for small sizes, at most 1 µs for a recycled 16 MiB block.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/malloc_measure.h"
#include "tools/bench/measure.h"

namespace terrace::bench {
namespace {

constexpr const char* usage =
    "usage: terrace bench malloc [--rounds 1..99] [--json FILE]\n"
    "Times malloc, calloc and realloc under stock malloc, the Terrace preload, and jemalloc, mimalloc and "
    "tcmalloc\n"
    "where they are installed.";

struct Competitor {
  std::string name;
  std::string preload;
};

std::vector<Competitor> competitors() {
  std::vector<Competitor> all = {{"stock", ""}, {"terrace", library_path("libterrace_preload.so")}};
  const std::pair<const char*, const char*> others[] = {
      {"jemalloc", "libjemalloc.so.2"}, {"mimalloc", "libmimalloc.so.2"}, {"tcmalloc", "libtcmalloc.so.4"}};
  for (const auto& [name, file] : others) {
    for (const char* folder : {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib/"}) {
      if (!std::filesystem::exists(std::string(folder) + file)) continue;
      all.push_back({name, std::string(folder) + file});
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

void run_round(const std::vector<Competitor>& order, Samples* samples) {
  for (const Competitor& competitor : order) {
    const auto result = nlohmann::ordered_json::parse(
        run_captured({own_path(), "--measure"},
                     {{"LD_PRELOAD", competitor.preload}, {"TERRACE_DRAM", ""}, {"TERRACE_SOCKET", ""}}));
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
  std::printf("%-28s", "ns per operation, medians");
  for (const Competitor& c : all) std::printf("%12s", c.name.c_str());
  std::printf("%14s\n", "terrace-stock");
  for (const auto& [operation, row] : rows.items()) {
    std::printf("%-28s", operation.c_str());
    for (const Competitor& c : all) std::printf("%12.1f", row["median_ns"][c.name].get<double>());
    std::printf("%+14.1f\n", row["difference_ns"].get<double>());
  }
}

int compare(const Arguments& arguments) {
  const long rounds = arguments.number("--rounds", 5, 1, 99);
  std::vector<Competitor> all = competitors();
  Samples samples;
  for (long round = 0; round < rounds; ++round) {
    std::vector<Competitor> order = all;
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
    run_round(order, &samples);
  }
  const nlohmann::ordered_json rows = summarise(samples);
  print_table(rows, all);
  const std::string path = arguments.text("--json", "");
  if (!path.empty()) {
    nlohmann::json report = begin_report("terrace-bench-malloc");
    report.update({{"rounds", rounds}, {"operations", rows}});
    write_json(path, report);
  }
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
  return compare(Arguments(argc, argv, {"--rounds", "--json"}, usage));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
