// Tables of fixed width: a terminal of 100 columns shows them, and two runs can be laid side by side with
// diff. Rates are of content, compressed or not, so that all lines of a table compare.
#include "tools/bench/compression/report.h"

#include <cstdio>
#include <string>

namespace terrace::bench {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& value) { return value.get<double>(); }
double gigabytes(const Json& value) {
  return (value.is_object() ? number(value["median"]) : number(value)) / 1e9;
}
std::string text(const Json& value) { return value.get<std::string>(); }

void print_names(const Json& names) {
  const char* separator = " ";
  for (const Json& name : names) {
    std::printf("%s%s", separator, text(name).c_str());
    separator = ", ";
  }
}

void print_plain(const char* name, const Json& rate) {
  std::printf("  %-22s %16.2f\n", name, gigabytes(rate));
}

}  // namespace

void print_heading(const Json& report) {
  const Json& set = report["working_set"];
  const double mib = 1 << 20;
  std::printf("%s, kernels:", text(report["machine"]["cpu"]).c_str());
  print_names(report["kernels"]);
  std::printf("%s%s\n", report.contains("commit") ? ", commit " : "",
              report.contains("commit") ? text(report["commit"]).c_str() : "");
  std::printf(
      "One core; %.0f tensors of %.0f MiB, %.0f MiB with frames and results; last-level cache %.0f MiB: %s\n",
      number(set["tensors"]), number(set["tensor_bytes"]) / mib, number(set["total_bytes"]) / mib,
      number(set["last_level_cache_bytes"]) / mib,
      set["from_dram"].get<bool>() ? "all comes from DRAM"
                                   : "TOO SMALL a working set, figures may be the cache's");
  std::printf("Rounds: %.0f, medians; GB/s of content (1e9). Non-temporal copy: %s; B is twice its rate.\n",
              number(report["rounds"]), text(report["streaming_copy"]).c_str());
  if (report.value("load_at_start", 0.0) > 0.5)
    std::printf(
        "LOAD: %.1f other tasks were running at the start; what they take of the memory's bandwidth is "
        "missing "
        "here.\n",
        number(report["load_at_start"]));
  std::printf("Compared with");
  print_names(report["compared_with"]);
  std::printf(" (level 5; 1.x: what Debian 12 has)\n");
}

void print_speed(const Json& speed) {
  std::printf("\n%s: %.1f%% zeros, mean run %.1f\n", text(speed["name"]).c_str(),
              100 * number(speed["sparsity"]), number(speed["mean_zero_run"]));
  std::printf("  %-22s %6s %9s %9s %9s %9s\n", "", "ratio", "compress", "B/(1+c)", "decompr.", "B/(2+c)");
  print_plain("memcpy", speed["memcpy_bytes_per_s"]);
  print_plain("non-temporal copy", speed["streaming_copy_bytes_per_s"]);
  print_plain("read only", speed["read_bytes_per_s"]);
  for (const Json& c : speed["contenders"])
    std::printf("  %-22s %6.3f %9.2f %8.0f%% %9.2f %8.0f%%\n", text(c["name"]).c_str(), number(c["ratio"]),
                gigabytes(c["compress_bytes_per_s"]), 100 * number(c["compress_to_roofline"]),
                gigabytes(c["decompress_bytes_per_s"]), 100 * number(c["decompress_to_roofline"]));
}

void print_all_cores(const Json& cores) {
  std::printf(
      "\nAll %.0f cores, f32 62%%: non-temporal copy %.2f, %s compress %.2f (%.0f%% of B/(1+c)), decompress "
      "%.2f GB/s\n",
      number(cores["cores"]), gigabytes(cores["streaming_copy_bytes_per_s"]), text(cores["name"]).c_str(),
      gigabytes(cores["compress_bytes_per_s"]), 100 * number(cores["compress_to_roofline"]),
      gigabytes(cores["decompress_bytes_per_s"]));
}

void print_ratios(const Json& rows) {
  std::printf(
      "\nRatios. Limit: 1/((1-s)+1/b), what a mask and packed values take; independent: zeros without "
      "clusters\n");
  std::printf("  %-7s %5s %8s %8s %8s %8s %8s %8s %8s %9s %12s\n", "element", "zeros", "limit", "zvc",
              "zvc_exp", "rle", "csr8", "lz4", "zstd", "zvc/limit", "independent");
  for (const Json& row : rows) {
    std::printf("  %-7s %4.0f%% %8.3f", text(row["element"]).c_str(), 100 * number(row["sparsity"]),
                number(row["mask_and_values"]));
    for (const auto& [codec, ratio] : row["ratio"].items()) std::printf(" %8.3f", number(ratio));
    std::printf(" %8.2f%% %11.2f%%\n", 100 * number(row["zvc_to_mask_and_values"]),
                100 * number(row["zvc_to_mask_and_values_independent_zeros"]));
  }
}

void print_exponent_ratios(const Json& rows) {
  std::printf("\nRatios at 62%% zeros\n  %-36s %8s %8s %8s\n", "", "zvc", "zvc_exp", "zstd");
  for (const Json& row : rows)
    std::printf("  %-36s %8.3f %8.3f %8.3f\n", text(row["name"]).c_str(), number(row["zvc"]),
                number(row["zvc_exp"]), number(row["zstd"]));
}

void print_captured(const Json& groups) {
  for (const Json& group : groups) {
    std::printf("\n%s, %s weights: %.0f tensors, %.1f MB, %.1f%% zeros, mean run %.1f\n",
                text(group["network"]).c_str(), text(group["weights"]).c_str(), number(group["tensors"]),
                number(group["bytes"]) / 1e6, 100 * number(group["sparsity"]),
                number(group["mean_zero_run"]));
    std::printf("  %-22s %6s %9s %9s\n", "", "ratio", "compress", "decompr.");
    for (const Json& c : group["contenders"])
      std::printf("  %-22s %6.3f %9.2f %9.2f\n", text(c["name"]).c_str(), number(c["ratio"]),
                  gigabytes(c["compress_bytes_per_s"]), gigabytes(c["decompress_bytes_per_s"]));
  }
}

void print_in_caches(const Json& rows) {
  std::printf("\nIn the caches, zvc, one tensor of %.0f KiB, 62%% zeros\n  %-22s %9s %9s %13s\n",
              number(rows.front()["tensor_bytes"]) / 1024, "", "compress", "decompr.", "the checksum's");
  for (const Json& row : rows)
    std::printf("  %-22s %9.2f %9.2f %12.1f%%\n", text(row["name"]).c_str(),
                gigabytes(row["compress_bytes_per_s"]), gigabytes(row["decompress_bytes_per_s"]),
                100 * number(row["checksum_share"]));
}

}  // namespace terrace::bench
