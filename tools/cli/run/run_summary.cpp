#include "tools/cli/run/run_summary.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>

#include "tools/cli/base/format.h"
#include "tools/cli/daemon/codec_rows.h"
#include "tools/cli/point/outcome.h"
#include "tools/cli/run/run_offload.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

std::uint64_t counter(const json& counters, const char* name) {
  const auto found = counters.find(name);
  return found != counters.end() && found->is_number() ? found->get<std::uint64_t>() : 0;
}

std::string word(const json& counters, const char* name) {
  const auto found = counters.find(name);
  return found != counters.end() && found->is_string() ? found->get<std::string>() : "";
}

void put(json* object, const char* name, const std::optional<std::uint64_t>& value) {
  if (value) (*object)[name] = *value;
}

double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

json exit_json(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {{"signal", WTERMSIG(wait_status)}};
  return {{"code", WEXITSTATUS(wait_status)}};
}

std::string end_text(const RunReport& report) {
  const int status = report.outcome.wait_status;
  const std::string how = WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                              : fmt::format("ended with code {}", WEXITSTATUS(status));
  return fmt::format("terrace: {} {} after {}\n", report.plan.job, how,
                     duration_text(report.outcome.wall_ns));
}

std::string memory_text(const RunReport& report) {
  if (!report.peak_bytes)
    return fmt::format("  memory   largest process {} resident\n", bytes_text(report.outcome.peak_rss_bytes));
  std::string text = fmt::format("  memory   peak {}", bytes_text(*report.peak_bytes));
  if (report.plan.limit_bytes)
    text += fmt::format(" under a limit of {}", bytes_text(*report.plan.limit_bytes));
  if (report.oom_kills.value_or(0) > 0)
    text += fmt::format("; KILLED for memory {} times", *report.oom_kills);
  return text + "\n";
}

std::string saved_text(const RunReport& report) {
  const json& counters = report.counters;
  const std::uint64_t held = counter(counters, "heap_peak_bytes");
  const std::uint64_t resident = counter(counters, "resident_peak_bytes");
  if (held == 0) return "  data     nothing was large enough for Terrace's heap\n";
  std::string text = fmt::format("  data     {} at most", bytes_text(held));
  if (resident != 0) text += fmt::format(", of it {} in DRAM", bytes_text(std::min(resident, held)));
  if (report.pool_in_memory)
    text += "; none saved: the pool is in memory as well";
  else if (resident != 0 && held > resident)
    text += fmt::format(": {} of DRAM saved", bytes_text(held - resident));
  return text + "\n";
}

std::string moved_text(const json& counters) {
  return fmt::format(
      "  moved    {} out ({} written), {} back ({} read)\n", bytes_text(counter(counters, "evicted_bytes")),
      bytes_text(counter(counters, "written_bytes")), bytes_text(counter(counters, "restored_bytes")),
      bytes_text(counter(counters, "read_bytes")));
}

// "  codec    zvc_exp stored 3.1 GiB in 1.1 GiB (2.81 times smaller), compressed in 0.4 s, back in 0.3 s".
std::string codec_text(const json& counters) {
  std::string text;
  for (const json& row : codec_rows(counters))
    text +=
        fmt::format("  codec    {} wrote {} as {} ({:.2f} times smaller) in {}, and back in {}\n",
                    row["codec"].get<std::string>(), bytes_text(counter(row, "content_bytes")),
                    bytes_text(counter(row, "frame_bytes")), row["ratio"].get<double>(),
                    duration_text(static_cast<std::uint64_t>(row["compress_seconds"].get<double>() * 1e9)),
                    duration_text(static_cast<std::uint64_t>(row["decompress_seconds"].get<double>() * 1e9)));
  return text;
}

std::string waited_text(const RunReport& report) {
  const std::uint64_t stall = counter(report.counters, "stall_ns");
  const double share = report.outcome.wall_ns == 0 ? 0 : seconds(stall) / seconds(report.outcome.wall_ns);
  return fmt::format(
      "  waited   {} in {} faults ({} of the time, summed over threads)\n", duration_text(stall),
      count_text(static_cast<double>(counter(report.counters, "faults"))), percent_text(share));
}

// Of a job that the kernel's swap kept under its limit for a while.
std::string swapped_text(const json& counters) {
  const std::uint64_t swapped = counter(counters, "kernel_swap_ns");
  if (swapped == 0) return "";
  return fmt::format("  swapped  by the kernel for {}, as the job got on faster so\n",
                     duration_text(swapped));
}

// Of a program that repeats itself, what one of its steps took.
std::string steps_text(const json& counters) {
  const std::uint64_t steps = counter(counters, "steps");
  if (steps == 0) return "";
  return fmt::format("  steps    {} seen, each {} and {} of that waiting\n", steps,
                     duration_text(counter(counters, "steps_ns") / steps),
                     duration_text(counter(counters, "steps_stall_ns") / steps));
}

std::string pager_text(const json& counters) {
  const std::string pager = word(counters, "pager");
  if (pager.empty()) return "";
  std::string text = "  pager    " + pager;
  const std::string mover = word(counters, "mover");
  const std::string io = word(counters, "io");
  if (pager == "active") text += fmt::format(" ({}, {})", mover, io);
  const std::uint64_t budget = counter(counters, "budget_bytes");
  if (budget != 0) text += fmt::format(", budget {}", bytes_text(budget));
  return text + "\n";
}

// Of a job that ran at a chosen point of a budget curve.
std::string point_text(const RunReport& report) {
  if (!report.plan.point) return "";
  return outcome_text(*report.plan.point, report.plan.dram_bytes, report.counters);
}

std::string damage_text(const json& counters) {
  const std::uint64_t lost = counter(counters, "lost_runs");
  const std::uint64_t errors = counter(counters, "io_errors");
  if (lost + errors == 0) return "";
  return fmt::format("  DAMAGE   {} runs lost, {} I/O errors: check the pool's disk\n", lost, errors);
}

}  // namespace

void read_cgroup(const JobCgroup& cgroup, RunReport* report) {
  report->peak_bytes = cgroup.peak_bytes();
  report->limit_hits = cgroup.limit_hits();
  report->oom_kills = cgroup.oom_kills();
}

json summary_json(const RunReport& report) {
  json out{{"format", "terrace-run-summary"},
           {"version", 1},
           {"job", report.plan.job},
           {"exit", exit_json(report.outcome.wait_status)},
           {"wall_seconds", seconds(report.outcome.wall_ns)},
           {"largest_process_peak_bytes", report.outcome.peak_rss_bytes}};
  put(&out, "peak_bytes", report.peak_bytes);
  put(&out, "limit_bytes", report.plan.limit_bytes);
  put(&out, "dram_bytes", report.plan.dram_bytes);
  put(&out, "limit_hits", report.limit_hits);
  put(&out, "oom_kills", report.oom_kills);
  if (!report.counters.is_null()) out["counters"] = report.counters;
  if (report.counters.contains("stall_ns"))
    out["stall_seconds"] = seconds(counter(report.counters, "stall_ns"));
  if (!report.offload.is_null()) out["offload"] = report.offload;
  if (report.plan.point) out["plan"] = outcome_json(*report.plan.point, report.counters);
  if (!report.counters_why.empty()) out["counters_unknown"] = report.counters_why;
  return out;
}

std::string summary_text(const RunReport& report) {
  std::string text = end_text(report) + memory_text(report);
  if (report.plan.offload) text += offload_text(report.offload);
  if (report.counters.is_null()) return text + "  Terrace  no counters: " + report.counters_why + "\n";
  return text + saved_text(report) + moved_text(report.counters) + codec_text(report.counters) +
         waited_text(report) + swapped_text(report.counters) + steps_text(report.counters) +
         point_text(report) + pager_text(report.counters) + damage_text(report.counters);
}

}  // namespace terrace::cli
