// terrace bench malloc: what an allocation costs under the preload, against stock malloc and what else is
// installed.
//
// Each competitor is a copy of this program under its LD_PRELOAD; rounds alternate their order, and medians
// are compared. There is no budget here: this is what a job pays that needs no paging. Targets: at most 3 ns
// over the next allocator for small sizes, at most 1 µs for a recycled 16 MiB block.
#include <algorithm>
#include <cstdio>
#include <cstring>
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

using Samples = std::map<std::string, std::map<std::string, std::vector<double>>>;  // operation, competitor

void run_round(const std::vector<Competitor>& order, Samples* samples) {
  for (const Competitor& competitor : order) {
    const std::string output =
        run_captured({own_path(), "--measure"},
                     {{"LD_PRELOAD", competitor.preload}, {"TERRACE_DRAM", ""}, {"TERRACE_SOCKET", ""}});
    for (const auto& [operation, ns] : nlohmann::json::parse(output).items()) {
      (*samples)[operation][competitor.name].push_back(ns.get<double>());
    }
  }
}

nlohmann::json summarise(const Samples& samples) {
  nlohmann::json rows;
  for (const auto& [operation, by_name] : samples) {
    nlohmann::json row;
    for (const auto& [name, values] : by_name) row["median_ns"][name] = median(values);
    const double stock = row["median_ns"]["stock"];
    const double ours = row["median_ns"]["terrace"];
    row["difference_ns"] = ours - stock;
    row["ratio"] = ours / stock;
    rows[operation] = row;
  }
  return rows;
}

void print_table(const nlohmann::json& rows, const std::vector<Competitor>& all) {
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
  const nlohmann::json rows = summarise(samples);
  print_table(rows, all);
  const std::string path = arguments.text("--json", "");
  if (!path.empty()) {
    write_json(path, {{"format", "terrace-bench-malloc"},
                      {"version", 1},
                      {"rounds", rounds},
                      {"machine", describe_machine()},
                      {"operations", rows}});
  }
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) {
  using namespace terrace::bench;  // NOLINT: this is their program
  if (argc == 2 && std::strcmp(argv[1], "--measure") == 0) {
    std::printf("%s\n", measure_malloc().dump().c_str());
    return 0;
  }
  return compare(Arguments(argc, argv, {"--rounds", "--json"}, usage));
}
