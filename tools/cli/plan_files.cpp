#include "tools/cli/plan_files.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "daemon/planner/json_line.h"
#include "daemon/planner/machine_json.h"
#include "daemon/planner/simulate/perfetto.h"
#include "tools/plot/memory_plot.h"
#include "tools/plot/placement_plot.h"

namespace terrace::cli {

using Paths = std::vector<std::string>;

namespace {

bool write_packed(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wbe");
  if (file == nullptr) return false;
  const bool written = content.empty() || gzfwrite(content.data(), 1, content.size(), file) == content.size();
  return gzclose(file) == Z_OK && written;
}

bool write_plain(const std::string& path, const std::string& content) {
  FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return false;
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  return std::fclose(file) == 0 && written;
}

// "" and the path appended, or the message.
std::string put(const std::string& path, const std::string& content, Paths* paths) {
  std::string error = write_whole(path, content);
  if (error.empty()) paths->push_back(path);
  return error;
}

std::string take(Result<Paths> written, Paths* paths) {
  if (written) paths->insert(paths->end(), written->begin(), written->end());
  return written.error;
}

std::string draw(const std::string& prefix, const PlanReport& report, const ReuseRun* placed,
                 const SwapRun* moved, Paths* paths) {
  const planner::Instance& instance = report.input->instance;
  std::string error;
  if (placed != nullptr)
    error = take(
        plot::plot_placement(prefix + "-placement", {&instance, &*placed->placement, placed->policy.name}),
        paths);
  if (!error.empty()) return error;
  if (moved != nullptr)
    return take(plot::plot_step(prefix + "-memory", {report.input->trace.get(), report.machine,
                                                     &*moved->report, moved->policy.name}),
                paths);
  if (placed != nullptr)
    return take(
        plot::plot_live(prefix + "-memory", {&instance, placed->placement->total_bytes, placed->policy.name}),
        paths);
  return "--plot: there is no valid plan to draw";
}

std::string write_answer(const std::string& path, const PlanReport& report, const ReuseRun* placed,
                         const SwapRun* moved, Paths* paths) {
  if (moved != nullptr)
    return put(path, planner::schedule_json(*moved->schedule, *report.input->trace, *report.machine), paths);
  if (report.machine == nullptr && placed != nullptr)
    return put(path, placement_json(report.input->instance, *placed), paths);
  return "--out: there is no valid plan to write";
}

std::string write_timeline(const std::string& path, const PlanReport& report, const SwapRun* moved,
                           Paths* paths) {
  if (moved == nullptr)
    return "--perfetto: there is no valid simulated step; give --machine and a policy that moves";
  return put(path, planner::perfetto_json(*report.input->trace, *report.machine, *moved->report), paths);
}

nlohmann::ordered_json buffer_json(const planner::Instance& instance, const planner::Placement& placement,
                                   std::size_t i) {
  const planner::Buffer& b = instance.buffers[i];
  nlohmann::ordered_json out{
      {"lower", b.lower}, {"upper", b.upper}, {"bytes", b.bytes}, {"offset", placement.offsets[i]}};
  if (instance.trace != nullptr && b.tensor != planner::no_tensor)
    out["tensor"] = instance.trace->tensors[b.tensor].id;
  return out;
}

}  // namespace

std::string placement_json(const planner::Instance& instance, const ReuseRun& run) {
  nlohmann::ordered_json out{{"format", "terrace-placement"},
                             {"version", 1},
                             {"name", instance.name},
                             {"policy", run.policy.name},
                             {"total_bytes", run.placement->total_bytes}};
  out["buffers"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < instance.buffers.size(); ++i)
    out["buffers"].push_back(buffer_json(instance, *run.placement, i));
  return planner::json_lines(out, 1) + "\n";
}

std::string write_whole(const std::string& path, const std::string& content) {
  const std::string part = fmt::format("{}.{}.part", path, getpid());
  errno = 0;
  const bool written = path.ends_with(".gz") ? write_packed(part, content) : write_plain(part, content);
  if (written && std::rename(part.c_str(), path.c_str()) == 0) return "";
  const int error = errno;
  std::remove(part.c_str());
  return fmt::format("{} cannot be written: {}", path, std::strerror(error != 0 ? error : EIO));
}

Result<Paths> write_plan_files(const PlanOptions& options, const PlanReport& report) {
  const ReuseRun* placed = best_of(report.reuse);
  const SwapRun* moved = best_of(report.swap);
  Paths paths;
  std::string error;
  if (!options.plot.empty()) error = draw(options.plot, report, placed, moved, &paths);
  if (error.empty() && !options.out.empty()) error = write_answer(options.out, report, placed, moved, &paths);
  if (error.empty() && !options.perfetto.empty())
    error = write_timeline(options.perfetto, report, moved, &paths);
  return error.empty() ? ok(std::move(paths)) : refused<Paths>(std::move(error));
}

}  // namespace terrace::cli
