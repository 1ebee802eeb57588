#include "tools/cli/plan/plan_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/planner/json_line.h"
#include "daemon/planner/machine_json.h"
#include "daemon/planner/simulate/perfetto.h"
#include "tools/cli/base/text_files.h"
#include "tools/plot/memory_plot.h"
#include "tools/plot/placement_plot.h"

namespace terrace::cli {

using Paths = std::vector<std::string>;

namespace {

// What is written of a report, and where to.
class Writer {
 public:
  explicit Writer(const PlanReport& report)
      : report_(report), placed_(best_of(report.reuse)), moved_(best_of(report.swap)) {}

  void answer(const std::string& path) {
    if (moved_ != nullptr)
      put(path, planner::schedule_json(*moved_->schedule, *report_.input->trace, *report_.machine));
    else if (report_.machine == nullptr && placed_ != nullptr)
      put(path, placement_json(report_.input->instance, *placed_));
    else
      lacks("--out: there is no valid plan to write");
  }

  void timeline(const std::string& path) {
    if (moved_ != nullptr)
      put(path, planner::perfetto_json(*report_.input->trace, *report_.machine, *moved_->report));
    else
      lacks("--perfetto: there is no valid simulated step");
  }

  void pictures(const std::string& prefix) {
    const planner::Instance& instance = report_.input->instance;
    if (placed_ != nullptr)
      take(plot::plot_placement(prefix + "-placement",
                                {&instance, &*placed_->placement, placed_->policy.name}));
    if (moved_ != nullptr)
      take(plot::plot_step(prefix + "-memory", {report_.input->trace.get(), report_.machine, &*moved_->report,
                                                moved_->policy.name}));
    else if (placed_ != nullptr)
      take(plot::plot_live(prefix + "-memory",
                           {&instance, placed_->placement->total_bytes, placed_->policy.name}));
    else
      lacks("--plot: there is no valid plan to draw");
  }

  PlanFiles files() { return std::move(files_); }

 private:
  void put(const std::string& path, const std::string& content) {
    std::string error = write_whole(path, content);
    error.empty() ? files_.written.push_back(path) : files_.errors.push_back(std::move(error));
  }

  void take(Result<Paths> drawn) {
    if (drawn) files_.written.insert(files_.written.end(), drawn->begin(), drawn->end());
    if (!drawn) files_.errors.push_back("--plot: " + drawn.error);
  }

  void lacks(const char* what) {
    if (!report_.interrupted) files_.errors.emplace_back(what);
  }

  const PlanReport& report_;
  const ReuseRun* placed_;
  const SwapRun* moved_;
  PlanFiles files_;
};

// Empty, or why no file can be made there.
std::string no_folder(const std::string& option, const std::string& path) {
  if (path.empty()) return "";
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (access((folder + "/.").c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("{} {}: nothing can be written into {}: {}; name a folder that exists and is yours",
                     option, path, folder, std::strerror(errno));
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

std::string output_without_policy(const PlanOptions& options, const ChosenPolicies& chosen) {
  if (!chosen.swap.empty()) return "";
  if (!chosen.update.empty() && !(options.out.empty() && options.perfetto.empty()))
    return fmt::format(
        "--out and --perfetto hold a schedule of the step as it is, and {} takes the update out of the step: "
        "choose another policy as well",
        chosen.update.front().name);
  if (!options.perfetto.empty())
    return "--perfetto draws a simulated step: give --machine and a policy that moves";
  if (!options.out.empty() && !options.machine.empty())
    return "--out with --machine is a schedule: choose a policy that moves, or leave --machine out";
  return "";
}

std::string output_without_folder(const PlanOptions& options) {
  for (const auto& [option, path] :
       {std::pair("--out", &options.out), std::pair("--perfetto", &options.perfetto),
        std::pair("--plot", &options.plot)}) {
    if (std::string why = no_folder(option, *path); !why.empty()) return why;
  }
  return "";
}

PlanFiles write_plan_files(const PlanOptions& options, const PlanReport& report) {
  Writer writer(report);
  if (!options.out.empty()) writer.answer(options.out);
  if (!options.perfetto.empty()) writer.timeline(options.perfetto);
  if (!options.plot.empty()) writer.pictures(options.plot);
  return writer.files();
}

}  // namespace terrace::cli
