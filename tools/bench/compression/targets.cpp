// The targets of the compression library. A speed is held against what the same memory did for a copy in the
// same rounds, so that it means the same on every machine; a few are absolute, as other systems state theirs.
#include <algorithm>
#include <string>

#include "compression/kernels/kernels.h"
#include "tools/bench/compression/contenders.h"
#include "tools/bench/compression/report.h"
#include "tools/bench/measuring/targets.h"

namespace terrace::bench {
namespace {

using Json = nlohmann::ordered_json;

// The entry of a list whose "name" is this; the sections put it there.
const Json& named(const Json& list, const std::string& name) {
  return *std::find_if(list.begin(), list.end(),
                       [&name](const Json& entry) { return entry["name"] == name; });
}

double worst(const Json& rows, const char* field) {
  double smallest = 1e9;
  for (const Json& row : rows) smallest = std::min(smallest, row[field].get<double>());
  return smallest;
}

void judge_ratios(const Json& report, Json* targets) {
  targets->push_back(at_least("zvc ratio to 1/((1-s)+1/b), worst case of the table",
                              worst(report["ratios"], "zvc_to_mask_and_values"), 0.995));
  targets->push_back(at_least("the same, independent zeros",
                              worst(report["ratios"], "zvc_to_mask_and_values_independent_zeros"), 0.995));
  const std::pair<const char*, double> wanted[] = {{"f32", 2.8}, {"bf16", 3.0}, {"f16", 2.45}};
  for (const auto& [element, ratio] : wanted)
    targets->push_back(at_least(std::string("zvc_exp ratio, ") + element + ", 62% zeros",
                                named(report["exponent_ratios"], element)["zvc_exp"], ratio));
}

// The best of ours; what zstd reaches on such data is why the target is what it is.
void judge_half_precision(const Json& rows, Json* targets) {
  for (const Json& row : rows) {
    if (row["element"] != "f16" || row["sparsity"] != 0.8) continue;
    double best = 0;
    for (const char* codec : {"zvc", "zvc_exp", "rle", "csr8"})
      best = std::max(best, row["ratio"][codec].get<double>());
    targets->push_back(at_least("best ratio, f16, 80% zeros", best, 4.4));
  }
}

void judge_headline(const Json& speed, Json* targets) {
  const Json& zvc = named(speed["contenders"], best_zvc_name());
  targets->push_back(
      at_least("zvc compress to non-temporal copy, f32, 62%", zvc["compress_to_streaming_copy"], 1.06));
  targets->push_back(at_least("zvc compress to roofline B/(1+c)", zvc["compress_to_roofline"], 0.75));
  targets->push_back(at_least("zvc decompress to roofline B/(2+c)", zvc["decompress_to_roofline"], 0.80));
  const Json& squeezed = named(speed["contenders"], zvc_exp_name);
  targets->push_back(
      at_least("zvc_exp compress, GB/s", squeezed["compress_bytes_per_s"]["median"].get<double>() / 1e9, 10));
  const Json& scalar = named(speed["contenders"], "zvc scalar");
  targets->push_back(at_least("zvc compress without vector units, GB/s",
                              scalar["compress_bytes_per_s"]["median"].get<double>() / 1e9, 4));
}

void judge_dense(const Json& speed, Json* targets) {
  const Json& zvc = named(speed["contenders"], best_zvc_name());
  targets->push_back(at_most("zvc of dense data, time to memcpy's", zvc["compress_time_to_memcpy"], 1.05));
  targets->push_back(
      at_most("zvc of dense data, size to the content's", 1 / zvc["ratio"].get<double>(), 1.0003));
}

// The best kernels of an instruction set, f32.
void judge_in_cache(const Json& rows, const std::string& set, double wanted, Json* targets) {
  for (const Json& row : rows) {
    if (row["element"] != "f32" || !row["kernels"].get<std::string>().starts_with(set)) continue;
    const double rate = row["compress_bytes_per_s"].get<double>() / 1e9;
    targets->push_back(at_least("zvc compress in the caches, " + set + ", GB/s", rate, wanted));
    return;
  }
}

void judge_in_caches(const Json& rows, Json* targets) {
  judge_in_cache(rows, "avx512", 60, targets);
  judge_in_cache(rows, "avx2", 30, targets);
  const auto best = [&](const std::string& element) {
    return named(rows, element + " " + compression::kernels().name);
  };
  const double f16 = best("f16")["compress_bytes_per_s"], f32 = best("f32")["compress_bytes_per_s"];
  targets->push_back(at_least("the same, f16 to f32", f16 / f32, 0.9));
  targets->push_back(at_most("the checksum's share of its time", best("f32")["checksum_share"], 0.1));
}

}  // namespace

Json judge(const Json& report) {
  Json targets = Json::array();
  judge_ratios(report, &targets);
  judge_half_precision(report["ratios"], &targets);
  judge_headline(named(report["speed"], "f32 62%"), &targets);
  targets.push_back(at_least("zvc compress on all cores to roofline B/(1+c)",
                             report["all_cores"]["compress_to_roofline"], 0.75));
  judge_in_caches(report["in_caches"], &targets);
  judge_dense(named(report["speed"], "f32 dense"), &targets);
  return targets;
}

}  // namespace terrace::bench
