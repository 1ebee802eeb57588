// terrace bench pager: how fast memory leaves and comes back, against what fio gets from the same file
// system.
//
// Every round runs fio's 1 MiB O_DIRECT write and read, then a copy of this program for each mover, which
// evicts a block and touches it again (measure.cpp). Medians over the rounds are compared. Targets: 90%
// of fio in both directions, 5 GB/s for what is still in DRAM, 95% of restored memory in huge pages,
// and beside a stream of reads a fault's p99 at most three times its p50.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tools/bench/measuring/measure.h"
#include "tools/bench/pager/measure.h"

namespace terrace::bench {
namespace {

constexpr const char* usage = R"(usage: terrace bench pager [options]

Evicts a block of memory to a file system and restores it, and compares the speed with fio's on the same file system.

  --mib N          the block has so many MiB, 64 at least (2048)
  --directory DIR  the file system of this directory (/var/tmp)
  --movers LIST    use these movers in turn: move,mremap,copy (move,mremap)
  --rounds N       repeat the whole so often (3)
  --json FILE      write all figures into this file)";

using Samples = std::map<std::string, std::vector<double>>;

double fio_bytes_per_s(const std::string& file, long mib, const std::string& direction) {
  const std::string output = run_captured(
      {"fio", "--name=bench", "--filename=" + file, "--rw=" + direction, "--bs=1M", "--direct=1",
       "--ioengine=io_uring", "--iodepth=8", "--size=" + std::to_string(mib) + "M", "--output-format=json"},
      {{"LD_PRELOAD", ""}});
  const std::size_t begin = output.find('{');  // notes may come before it
  return nlohmann::json::parse(
      output.substr(begin == std::string::npos ? 0 : begin))["jobs"][0][direction]["bw_bytes"];
}

void run_fio(const std::string& directory, long mib, Samples* samples) {
  const std::string file = directory + "/terrace-bench-" + std::to_string(getpid());
  (*samples)["write_bytes_per_s"].push_back(fio_bytes_per_s(file, mib, "write"));
  (*samples)["read_bytes_per_s"].push_back(fio_bytes_per_s(file, mib, "read"));
  unlink(file.c_str());
}

void run_mover(const std::string& mover, const std::string& directory, long mib, Samples* samples) {
  const std::string budget = std::to_string(mib + mib / 4 + 256) + "M";
  const nlohmann::json result =
      nlohmann::json::parse(run_captured({own_path(), "--measure", std::to_string(mib)},
                                         {{"TERRACE_MOVER", mover},
                                          {"TERRACE_DRAM", budget},
                                          {"TERRACE_POOL_DIR", directory},
                                          {"TERRACE_POOL_SIZE", std::to_string(4 * mib + 1024) + "M"},
                                          {"TERRACE_COMPRESS", "off"},  // the paths, whatever the data
                                          {"TERRACE_SOCKET", ""}}));
  for (const auto& [name, value] : result.items()) {
    if (value.is_number()) (*samples)[name].push_back(value.get<double>());
  }
}

nlohmann::json medians(const Samples& samples) {
  nlohmann::json row;
  for (const auto& [name, values] : samples) row[name] = median(values);
  return row;
}

void add_ratios(nlohmann::json* row, const nlohmann::json& fio) {
  const double write = fio["write_bytes_per_s"];
  const double read = fio["read_bytes_per_s"];
  (*row)["evict_to_fio"] = (*row)["evict_bytes_per_s"].get<double>() / write;
  (*row)["refill_to_fio"] = (*row)["refill_nvme_bytes_per_s"].get<double>() / read;
}

void print_row(const std::string& mover, const nlohmann::json& row) {
  const auto value = [&row](const char* name) { return row[name].get<double>(); };
  std::printf("\nmover %s\n", mover.c_str());
  std::printf(
      "  evict to NVMe         %6.2f GB/s   %5.1f%% of fio's write, on space that was used before "
      "(unchanged: %.2f GB/s)\n",
      value("evict_bytes_per_s") / 1e9, 100 * value("evict_to_fio"), value("evict_again_bytes_per_s") / 1e9);
  std::printf("  refill from NVMe      %6.2f GB/s   %5.1f%% of fio's read\n",
              value("refill_nvme_bytes_per_s") / 1e9, 100 * value("refill_to_fio"));
  std::printf("  the first time        %6.2f GB/s out, %.2f GB/s back\n",
              value("first_evict_bytes_per_s") / 1e9, value("first_refill_nvme_bytes_per_s") / 1e9);
  std::printf("  refill from DRAM      %6.2f GB/s\n", value("refill_dram_bytes_per_s") / 1e9);
  std::printf("  fault, NVMe           p50 %.0f us, p99 %.0f us\n", value("fault_nvme_p50_us"),
              value("fault_nvme_p99_us"));
  std::printf("  the same, loaded      p50 %.0f us, p99 %.0f us (beside a stream of twice as much)\n",
              value("fault_loaded_p50_us"), value("fault_loaded_p99_us"));
  std::printf("  fault, DRAM           p50 %.1f us, p99 %.1f us\n", value("fault_dram_p50_us"),
              value("fault_dram_p99_us"));
  std::printf("  huge-page mapped      %5.1f%% of restored memory\n", 100 * value("huge_share"));
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

int compare(const Arguments& arguments) {
  const long rounds = arguments.number("--rounds", 3, 1, 99);
  const long mib = arguments.number("--mib", 2048, 64, 1 << 20);
  const std::string directory = arguments.text("--directory", "/var/tmp");
  const std::vector<std::string> movers = split(arguments.text("--movers", "move,mremap"));
  Samples fio_samples;
  std::map<std::string, Samples> samples;
  for (long round = 0; round < rounds; ++round) {
    run_fio(directory, mib, &fio_samples);
    for (const std::string& mover : movers) run_mover(mover, directory, mib, &samples[mover]);
  }
  const nlohmann::json fio = medians(fio_samples);
  std::printf("%ld MiB on %s, %ld rounds, medians\nfio 1 MiB O_DIRECT      write %.2f GB/s, read %.2f GB/s\n",
              mib, directory.c_str(), rounds, fio["write_bytes_per_s"].get<double>() / 1e9,
              fio["read_bytes_per_s"].get<double>() / 1e9);
  nlohmann::json report = begin_report("terrace-bench-pager");
  report.update({{"rounds", rounds}, {"bytes", mib << 20}, {"directory", directory}, {"fio", fio}});
  for (const std::string& mover : movers) {
    nlohmann::json row = medians(samples[mover]);
    add_ratios(&row, fio);
    print_row(mover, row);
    report["movers"][mover] = row;
  }
  const std::string path = arguments.text("--json", "");
  if (!path.empty()) write_json(path, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  using namespace terrace::bench;  // NOLINT: this is their program
  if (argc == 3 && std::strcmp(argv[1], "--measure") == 0) {
    std::printf("%s\n", measure_pager(std::strtoul(argv[2], nullptr, 10) << 20).dump().c_str());
    return 0;
  }
  return compare(Arguments(argc, argv, {"--rounds", "--mib", "--directory", "--movers", "--json"}, usage));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
