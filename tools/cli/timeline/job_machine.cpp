#include "tools/cli/timeline/job_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/planner/simulate/machines.h"

namespace terrace::cli {

namespace {

constexpr std::uint64_t window_ns = 250'000'000;
constexpr std::uint64_t least_bytes = std::uint64_t{16} << 20;  // in the window; less says nothing of a drive

// Bytes a second, of the window in which `counter` grew most; 0: too little was seen.
double fastest(const Recording& recording, std::uint64_t MemorySample::*counter) {
  double most = 0;
  std::size_t first = 0;
  const std::vector<MemorySample>& samples = recording.samples;
  for (std::size_t last = 1; last < samples.size(); ++last) {
    while (first + 1 < last && samples[last].time_ns - samples[first + 1].time_ns >= window_ns) ++first;
    const std::uint64_t ns = samples[last].time_ns - std::min(samples[first].time_ns, samples[last].time_ns);
    const std::uint64_t bytes =
        samples[last].*counter - std::min(samples[first].*counter, samples[last].*counter);
    if (ns >= window_ns && bytes >= least_bytes)
      most = std::max(most, static_cast<double>(bytes) / static_cast<double>(ns) * 1e9);
  }
  return most;
}

std::string speed_text(const char* what, double seen, double assumed) {
  if (seen > 0) return fmt::format("{} {:.3g} GB/s, the fastest quarter of a second", what, seen / 1e9);
  return fmt::format("{} {:.3g} GB/s, as the SSD of a100-ssd, since too little moved to tell", what,
                     assumed / 1e9);
}

}  // namespace

JobMachine job_machine(const Recording& recording) {
  const planner::Link ssd = planner::built_in_machine("a100-ssd")->links.back();
  const double in = fastest(recording, &MemorySample::read_bytes);
  const double out = fastest(recording, &MemorySample::written_bytes);
  JobMachine made;
  made.machine.name = "DRAM and the pool";
  made.machine.tiers = {{"dram"}, {"pool"}};
  made.machine.tiers[0].paged = true;
  made.machine.links = {
      {"pool", in > 0 ? in : ssd.in_bytes_per_second, out > 0 ? out : ssd.out_bytes_per_second}};
  made.machine.routes = {{1, {0}}};
  made.about =
      fmt::format("machine: DRAM and the pool; {}; {}", speed_text("reading", in, ssd.in_bytes_per_second),
                  speed_text("writing", out, ssd.out_bytes_per_second));
  return made;
}

}  // namespace terrace::cli
