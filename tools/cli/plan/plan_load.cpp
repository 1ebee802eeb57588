#include "tools/cli/plan/plan_load.h"

#include <fmt/format.h>

#include <filesystem>

#include "daemon/planner/machine_json.h"
#include "daemon/planner/order/order.h"
#include "daemon/planner/simulate/machines.h"
#include "tools/cli/base/exit_code.h"
#include "tools/import/import.h"

namespace terrace::cli {

namespace {

template <class T>
Loaded<T> failed(int exit_code, std::string why) {
  return {refused<T>(std::move(why)), exit_code};
}

// "/data/BERT_Base-256.json.gz" -> "BERT_Base-256"
std::string name_from(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  for (const char* suffix : {".gz", ".json", ".csv", ".onnx", ".log"})
    if (name.extension() == suffix) name = name.stem();
  return path == "-" || name.empty() ? "standard input" : name.string();
}

Result<import::TraceFormat> format_of(const std::string& text, const std::string& name) {
  if (name.empty()) return import::recognise(text);
  if (const auto format = import::trace_format(name)) return ok(*format);
  std::string known;
  for (const import::TraceFormat f : import::all_trace_formats)
    known += std::string(known.empty() ? "" : ", ") + import::trace_format_name(f);
  return refused<import::TraceFormat>(fmt::format("--format {}: there are {}", name, known));
}

Result<PlanInput> lifetimes(const std::string& text) {
  auto instance = import::parse_csv(text);
  if (!instance) return refused<PlanInput>(std::move(instance.error));
  PlanInput input;
  input.instance = std::move(*instance);
  return ok(std::move(input));
}

Result<PlanInput> step(const std::string& text, import::TraceFormat format) {
  auto imported = import::import_trace(text, format);
  if (!imported) return refused<PlanInput>(std::move(imported.error));
  PlanInput input;
  input.trace = std::make_unique<wire::Trace>(std::move(imported->trace));
  input.instance = planner::instance_of(*input.trace);
  input.notes = std::move(imported->notes);
  return ok(std::move(input));
}

}  // namespace

Loaded<PlanInput> load_plan_input(const std::string& path, const std::string& format_name) {
  const Loaded<std::string> text = load_text(path);
  if (!text.result) return failed<PlanInput>(text.exit_code, text.result.error);
  const auto format = format_of(*text.result, format_name);
  if (!format)
    return failed<PlanInput>(format_name.empty() ? exit_failure : exit_usage,
                             format_name.empty() ? path + ": " + format.error : format.error);
  auto input = *format == import::TraceFormat::csv ? lifetimes(*text.result) : step(*text.result, *format);
  if (!input) return failed<PlanInput>(exit_failure, fmt::format("{}: {}", path, input.error));
  if (input->instance.buffers.empty())
    return failed<PlanInput>(exit_failure, path + ": there is nothing in it to place");
  input->format = import::trace_format_name(*format);
  // Kineto's name is the path that the profile once had.
  input->instance.name = name_from(input->instance.name.empty() ? path : input->instance.name);
  return {std::move(input), exit_ok};
}

std::vector<std::string> order_names() {
  return {"recorded", "breadth_first", "reverse_depth_first", "memory_minimising"};
}

std::string put_in_order(PlanInput* input, const std::string& order) {
  if (order == "recorded") return "";
  if (input->trace == nullptr)
    return input->instance.name + " holds lifetimes only, no operations: leave --order out";
  const wire::Trace& trace = *input->trace;
  if (!trace.reads_known)
    return input->instance.name +
           " does not tell what each operation reads, so another order could use a tensor after its release: "
           "leave --order out, or record the step with tools/profile/profile_step.py";
  *input->trace =
      planner::reorder(trace, order == "breadth_first"         ? planner::breadth_first(trace)
                              : order == "reverse_depth_first" ? planner::reverse_depth_first(trace)
                                                               : planner::memory_minimising(trace));
  const std::string name = input->instance.name + " " + order;
  input->instance = planner::instance_of(*input->trace);
  input->trace->name = input->instance.name = name;
  return "";
}

Loaded<planner::SwapPlan> load_plan(const std::string& path, const PlanInput& input,
                                    const planner::Machine& machine) {
  using planner::SwapPlan;
  if (input.trace == nullptr)
    return failed<SwapPlan>(exit_usage, input.instance.name + " holds lifetimes only, which no plan moves");
  const Loaded<std::string> text = load_text(path);
  if (!text.result) return failed<SwapPlan>(text.exit_code, text.result.error);
  Result<wire::Schedule> schedule = planner::parse_schedule(*text.result, *input.trace, machine);
  if (!schedule) return failed<SwapPlan>(exit_failure, path + ": " + schedule.error);
  return {ok(SwapPlan{std::move(*schedule), planner::Victims::belady}), exit_ok};
}

Loaded<planner::Machine> load_machine(const std::string& name_or_path) {
  if (auto machine = planner::built_in_machine(name_or_path)) return {ok(std::move(*machine)), exit_ok};
  const Loaded<std::string> text = load_text(name_or_path);
  if (text.exit_code == exit_not_found)
    return failed<planner::Machine>(
        exit_not_found,
        fmt::format("--machine {}: no such file, and of the machines that are built in there are: {}",
                    name_or_path, fmt::join(planner::built_in_machine_names(), ", ")));
  if (!text.result) return failed<planner::Machine>(text.exit_code, text.result.error);
  auto machine = planner::parse_machine(*text.result);
  if (!machine)
    return failed<planner::Machine>(exit_failure, fmt::format("{}: {}", name_or_path, machine.error));
  return {std::move(machine), exit_ok};
}

}  // namespace terrace::cli
