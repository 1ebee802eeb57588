// terrace bench advisor: are the advisor's predictions right, and are its decisions the best ones?
//
// First the times and sizes that it predicts for every codec of ours, and for a file's reads and writes,
// beside what is then measured; then its decisions on traces of networks in training, beside an oracle that
// knows every measurement. Targets: 10% at the median for predictions from 64 KiB to 1 GiB; regret of at most
// 3% on every trace; never over 2% slower than moving everything raw.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "tools/bench/advisor/parts.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/measuring/targets.h"

namespace terrace::bench {
namespace {

constexpr const char* usage = R"(usage: terrace bench advisor [options]

Compares what the compression advisor predicts with what it measures: the times of each codec and of the link, for tensors
of up to 512 MiB. Then it compares the advisor's decisions with the best ones.

  --link GB/s      take a link of this rate; without it the link is a file, written and read past the page cache
  --directory DIR  where that file lies ($TMPDIR, or /var/tmp)
  --parts LIST     measure these parts: codecs,link,traces (all)
  --explain        print the candidates of each trace's last decisions
  --full           tensors of up to 1 GiB
  --quick          tensors of up to 256 KiB: this shows that it works, and its figures say little
  --json FILE      write all figures into this file)";

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr double further_rates[] = {1, 2, 4, 8, 16};  // GB/s, so that verdicts differ

struct Options {
  bool explain = false, full = false, quick = false, codecs = true, file = true, traces = true;
  double link_gb_per_s = 0;  // 0: the file's
  std::string directory, json;
};

// Takes a word without a value out of the arguments.
bool take_flag(std::vector<char*>& words, const std::string& flag) {
  return std::erase_if(words, [&](const char* word) { return word == flag; }) > 0;
}

double rate_from(const std::string& text) {
  if (text.empty()) return 0;
  char* end = nullptr;
  const double rate = std::strtod(text.c_str(), &end);
  if (*end == '\0' && rate >= 0.01 && rate <= 10'000) return rate;
  std::fprintf(stderr, "bench: --link %s: a rate from 0.01 to 10000 GB/s\n", text.c_str());
  std::exit(2);
}

[[noreturn]] void refuse_parts(const std::string& text, const char* why) {
  std::fprintf(stderr, "bench: --parts %s: %s\n", text.c_str(), why);
  std::exit(2);
}

void take_parts(const std::string& text, Options& options) {
  options.codecs = options.file = options.traces = false;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    bool* const flag = part == "codecs"   ? &options.codecs
                       : part == "link"   ? &options.file
                       : part == "traces" ? &options.traces
                                          : nullptr;
    if (flag == nullptr) refuse_parts(text, "a list of codecs, link and traces");
    *flag = true;
  }
  options.file = options.file && options.link_gb_per_s == 0;
  if (!options.codecs && !options.file && !options.traces) refuse_parts(text, "nothing is left to measure");
}

// Bytes of the largest tensor of each part.
struct Sizes {
  std::size_t codecs, file, traces;
};
Sizes sizes_for(const Options& options) {
  if (options.quick) return {mib / 4, 4 * mib, mib / 16};
  return options.full ? Sizes{1024 * mib, 512 * mib, 4 * mib} : Sizes{512 * mib, 128 * mib, 4 * mib};
}

Options options_from(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  Options options;
  options.explain = take_flag(words, "--explain");
  options.full = take_flag(words, "--full");
  options.quick = take_flag(words, "--quick");
  const Arguments arguments(static_cast<int>(words.size()), words.data(),
                            {"--link", "--directory", "--parts", "--json"}, usage);
  const char* temporary = std::getenv("TMPDIR");
  options.directory =
      arguments.text("--directory", temporary != nullptr && *temporary ? temporary : "/var/tmp");
  options.link_gb_per_s = rate_from(arguments.text("--link", ""));
  options.json = arguments.text("--json", "");
  take_parts(arguments.text("--parts", "codecs,link,traces"), options);
  return options;
}

std::string rate_name(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%g GB/s", rate);
  return text;
}

FixedLink link_of_rate(double rate) {
  FixedLink link;
  link.name = rate_name(rate);
  link.out_gb_per_s = link.in_gb_per_s = rate;
  return link;
}

int run(const Options& options) {
  refuse_unwritable(options.json);  // first: measuring takes minutes
  const Sizes sizes = sizes_for(options);
  nlohmann::json report = begin_report("terrace-bench-advisor");
  std::vector<FixedLink> links;
  if (options.link_gb_per_s > 0) links.push_back(link_of_rate(options.link_gb_per_s));
  if (options.codecs) report["codecs"] = measure_codec_predictions(sizes.codecs);
  if (options.file) {
    FileLink file(options.directory, sizes.file);
    FixedLink as_measured;
    as_measured.name = "the file";
    report["link"] = measure_link_predictions(file, sizes.file, as_measured);
    links.push_back(as_measured);
  }
  if (options.link_gb_per_s == 0)
    for (const double rate : further_rates) links.push_back(link_of_rate(rate));
  if (options.traces) report["traces"] = measure_regret(links, sizes.traces, options.explain);
  const auto targets = judge_advisor(report);
  print_targets(targets);
  if (options.quick) std::printf("With --quick the figures mean nothing.\n");
  report["targets"] = targets;
  if (!options.json.empty()) write_json(options.json, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  using namespace terrace::bench;  // NOLINT: this is their program
  return run(options_from(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
