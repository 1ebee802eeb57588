// terrace bench compression: how small and how fast, against copies of the same memory, lz4, zstd and blosc.
//
// Everything runs in one process on one core, from DRAM, in rounds; each comparison is with what ran right
// before (speed.h). The data are activations made up from a seed (activations.h) and, with
// --captured, those of real networks. Every frame is decompressed and compared with the original. The list at
// the end says which of the library's targets this machine meets.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "compression/kernels/kernels.h"
#include "tools/bench/compression/captured.h"
#include "tools/bench/compression/ratios.h"
#include "tools/bench/compression/report.h"
#include "tools/bench/compression/speed.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/measuring/targets.h"

namespace terrace::bench {
namespace {

using compression::ElementType;
using Json = nlohmann::ordered_json;

constexpr const char* usage = R"(usage: terrace bench compression [options]

Measures the codecs on made-up activations, beside memcpy, a non-temporal copy, lz4, zstd -1 and blosc.

  --size MiB       rotate among tensors of so much in all (1024); the benchmark takes three times that much memory
  --rounds N       repeat the whole so often (7)
  --captured DIR   measure the activations in DIR, too; tools/bench/activations/capture_activations.py writes them
  --quick          one round over 16 MiB: this shows that it works, and its figures say little
  --json FILE      write all figures into this file)";

struct Options {
  bool quick = false;
  long mib = 1024;
  long rounds = 7;
  std::string captured;
  std::string json;
};

// --quick has no value, which Arguments expects of every option.
Options parse(int argc, char** argv) {
  std::vector<char*> rest(argv, argv + argc);
  const auto is_quick = [](const char* word) { return std::strcmp(word, "--quick") == 0; };
  Options options;
  options.quick = std::erase_if(rest, is_quick) != 0;
  const Arguments arguments(static_cast<int>(rest.size()), rest.data(),
                            {"--size", "--rounds", "--captured", "--json"}, usage);
  options.mib = arguments.number("--size", options.quick ? 16 : 1024, 16, 65536);
  options.rounds = arguments.number("--rounds", options.quick ? 1 : 7, 1, 99);
  options.captured = arguments.text("--captured", "");
  options.json = arguments.text("--json", "");
  return options;
}

struct Data {
  const char* name;
  ActivationSpec spec;
};

std::vector<Data> other_data() {
  return {{"f32 80%", {.sparsity = 0.80}},
          {"f32 dense", dense_activations(ElementType::f32)},
          {"bf16 62%", {.element = ElementType::bf16}},
          {"bf16 dense", dense_activations(ElementType::bf16)},
          {"f16 62%", {.element = ElementType::f16}},
          {"f8e4m3 62%", {.element = ElementType::f8e4m3}}};
}

Json describe_set(const WorkingSet& set) {
  const std::size_t cache = last_level_cache_bytes();
  return {{"tensors", set.tensors()},
          {"tensor_bytes", set.tensor_bytes()},
          {"total_bytes", set.total_bytes()},
          {"last_level_cache_bytes", cache},
          // Twice: what lies between two uses of a tensor are all the others and their results.
          {"from_dram", set.tensors() * set.tensor_bytes() > 2 * cache}};
}

Json heading(const Options& options, const WorkingSet& set, const StreamingCopy& copy) {
  Json report = begin_report("terrace-bench-compression");
  double load = 0;
  if (getloadavg(&load, 1) == 1) report["load_at_start"] = load;
  report["quick"] = options.quick;
  report["rounds"] = options.rounds;
  for (const auto* kernels : compression::all_kernels()) report["kernels"].push_back(kernels->name);
  report["compared_with"] = compared_libraries();
  report["working_set"] = describe_set(set);
  report["streaming_copy"] = copy.name;
  return report;
}

// Each section is printed as soon as it is there: all of it takes minutes.
void measure(const Options& options, const std::vector<CapturedNetwork>& captured, WorkingSet& set,
             const StreamingCopy& copy, Json* report) {
  const auto speed = [&](const char* name, const ActivationSpec& spec,
                         const std::vector<Contender>& contenders) {
    (*report)["speed"].push_back(measure_speed(set, copy, name, spec, contenders, options.rounds));
    print_speed((*report)["speed"].back());
  };
  speed("f32 62%", {}, every_contender(ElementType::f32));
  for (const Data& data : other_data()) speed(data.name, data.spec, main_contenders(data.spec.element));
  print_all_cores((*report)["all_cores"] = measure_all_cores(set, copy, {}, options.rounds));
  print_in_caches((*report)["in_caches"] = measure_in_caches(options.rounds, options.quick ? 10 : 2000));
  const std::size_t tensor = std::size_t{options.quick ? 1U : 8U} << 20;
  print_ratios((*report)["ratios"] = measure_ratios(tensor));
  print_exponent_ratios((*report)["exponent_ratios"] = measure_exponent_ratios(tensor));
  if (captured.empty()) return;
  print_captured((*report)["captured"] = measure_captured(captured, std::min(options.rounds, 3L)));
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  // All that may be refused comes first; measuring takes minutes.
  const auto captured =
      options.captured.empty() ? std::vector<CapturedNetwork>() : load_captured(options.captured);
  refuse_unwritable(options.json);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto bytes = static_cast<std::size_t>(options.mib) << 20;
  const std::size_t tensor = std::clamp(bytes / 16, std::size_t{1} << 20, std::size_t{64} << 20);
  WorkingSet set(bytes / tensor, tensor);
  set.fill({});
  const StreamingCopy copy = fastest_copy(set);
  Json report = heading(options, set, copy);
  print_heading(report);
  measure(options, captured, set, copy, &report);
  print_targets(report["targets"] = judge(report));
  if (options.quick) std::printf("With --quick the speeds mean nothing.\n");
  if (!options.json.empty()) write_json(options.json, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  return terrace::bench::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
