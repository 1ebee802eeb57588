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
#include <string>
#include <vector>

#include "tools/bench/advisor_parts.h"
#include "tools/bench/measure.h"

namespace terrace::bench {
namespace {

constexpr const char* usage =
    "usage: terrace bench advisor [--explain] [--full] [--link GB/s] [--directory DIR] [--parts LIST] "
    "[--json FILE]\n"
    "Predicted against measured times up to 512 MiB (--full: 1 GiB), then decisions against the best ones.\n"
    "The link is a file in DIR ($TMPDIR or /var/tmp), read and written past the page cache, or one of the "
    "given rate.\n"
    "--explain prints the candidates of each trace's last decisions. LIST: codecs,link,traces.";

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t trace_tensor_bytes = 4 * mib;
constexpr double further_rates[] = {1, 2, 4, 8, 16};  // GB/s, so that verdicts differ

struct Options {
  bool explain = false, full = false, codecs = true, file = true, traces = true;
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

Options options_from(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  Options options;
  options.explain = take_flag(words, "--explain");
  options.full = take_flag(words, "--full");
  const Arguments arguments(static_cast<int>(words.size()), words.data(),
                            {"--link", "--directory", "--parts", "--json"}, usage);
  const char* temporary = std::getenv("TMPDIR");
  options.directory =
      arguments.text("--directory", temporary != nullptr && *temporary ? temporary : "/var/tmp");
  options.link_gb_per_s = rate_from(arguments.text("--link", ""));
  options.json = arguments.text("--json", "");
  const std::string parts = arguments.text("--parts", "codecs,link,traces");
  options.codecs = parts.find("codecs") != std::string::npos;
  options.file = parts.find("link") != std::string::npos && options.link_gb_per_s == 0;
  options.traces = parts.find("traces") != std::string::npos;
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
  nlohmann::json report = begin_report("terrace-bench-advisor");
  std::vector<FixedLink> links;
  if (options.link_gb_per_s > 0) links.push_back(link_of_rate(options.link_gb_per_s));
  if (options.codecs) report["codecs"] = measure_codec_predictions((options.full ? 1024 : 512) * mib);
  if (options.file) {
    FileLink file(options.directory, (options.full ? 512 : 128) * mib);
    FixedLink as_measured;
    as_measured.name = "the file";
    report["link"] = measure_link_predictions(file, (options.full ? 512 : 128) * mib, as_measured);
    links.push_back(as_measured);
  }
  if (options.link_gb_per_s == 0)
    for (const double rate : further_rates) links.push_back(link_of_rate(rate));
  if (options.traces) report["traces"] = measure_regret(links, trace_tensor_bytes, options.explain);
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
