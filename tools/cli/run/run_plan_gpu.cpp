#include "tools/cli/run/run_plan_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "tiers/gpu/device.h"
#include "tools/cli/base/format.h"

namespace terrace::cli {

namespace gpu = tiers::gpu;

namespace {

constexpr std::uint64_t smallest_offload_bytes = std::uint64_t{16}
                                                 << 20;  // terrace_offload_config.dram_bytes

using Text = std::string RunOptions::*;

void add(RunPlan* plan, const char* variable, const std::string& value) {
  plan->environment.emplace_back(variable, value);
}

// PyTorch's allocator then maps memory by the driver's own calls, which no preload sees: the job would run,
// and nothing that was asked for would happen.
std::string check_segments(const gpu::DeviceSpec& device) {
  if (device.kind != gpu::Kind::cuda) return "";
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
    if (asks_for_expandable_segments(std::getenv(name)))
      return fmt::format(
          "--gpu cannot work with {}=expandable_segments:True: PyTorch then maps GPU memory past cudaMalloc; "
          "take expandable_segments out of it (Terrace's heap maps memory in the same way)",
          name);
  return "";
}

std::string take_gpu_budget(const RunOptions& options, const gpu::DeviceSpec& device, RunPlan* plan) {
  const std::string& text = options.gpu_budget;
  if (text.empty()) return "";
  // The share of a real GPU's memory is for the heap to work out, which opens it.
  const bool emulated = device.kind == gpu::Kind::emulated;
  const Ceiling whole{emulated ? device.capacity_bytes : UINT64_MAX >> 2, "the emulated GPU's memory"};
  const auto bytes = resolve_budget("--gpu-budget", text, whole);
  if (!bytes) return bytes.error;
  add(plan, "TERRACE_GPU_BUDGET", !emulated && text.ends_with('%') ? text : exact_size(*bytes));
  return "";
}

std::string take_gpu(const RunOptions& options, RunPlan* plan) {
  if (options.gpu.empty())
    return options.gpu_budget.empty() && !options.gpu_selftest
               ? ""
               : "--gpu-budget and --gpu-selftest need --gpu DEVICE, such as --gpu cuda";
  gpu::DeviceSpec device;
  std::string reason;
  if (gpu::parse_device(options.gpu, &device, &reason) != 0) return "--gpu: " + reason;
  if (std::string problem = check_segments(device); !problem.empty()) return problem;
  plan->gpu = true;
  add(plan, "TERRACE_GPU", options.gpu);
  if (options.gpu_selftest) add(plan, "TERRACE_GPU_SELFTEST", "1");
  return take_gpu_budget(options, device, plan);
}

std::string take_size(const char* option, const char* variable, const std::string& text, std::uint64_t least,
                      RunPlan* plan) {
  if (text.empty()) return "";
  const auto bytes = parse_size(text);
  if (!bytes) return fmt::format("{}: {}", option, bytes.error);
  if (*bytes < least)
    return fmt::format("{} {}: the smallest possible is {}", option, text, bytes_text(least));
  add(plan, variable, exact_size(*bytes));
  return "";
}

std::string take_offload_budget(const RunOptions& options, const Ceiling& ceiling, RunPlan* plan) {
  const std::string& text = options.offload_budget;
  const auto bytes = text.empty() ? ok(std::uint64_t{0}) : parse_size(text);
  if (bytes && *bytes > ceiling.bytes)
    return fmt::format("--offload-budget {} cannot be met: {} has {}; ask for at most that", text,
                       ceiling.origin, size_at_most(ceiling.bytes));
  return take_size("--offload-budget", "TERRACE_OFFLOAD_BUDGET", text, smallest_offload_bytes, plan);
}

// An option that would have no effect is a mistake that its user should hear of now.
std::string check_offload_is_asked_for(const RunOptions& options) {
  for (const auto& [name, member] :
       {std::pair<const char*, Text>{"--offload-budget", &RunOptions::offload_budget},
        {"--offload-tiers", &RunOptions::offload_tiers},
        {"--offload-min", &RunOptions::offload_min},
        {"--offload-limit", &RunOptions::offload_limit},
        {"--writes-total", &RunOptions::writes_total}})
    if (!(options.*member).empty())
      return fmt::format("{} {} needs --offload activations", name, options.*member);
  return "";
}

std::string check_tiers(const RunOptions& options) {
  if (options.writes_total.empty() || options.offload_tiers.find("nvme") != std::string::npos) return "";
  return "--writes-total limits what goes to NVMe: name it, --offload-tiers dram,nvme";
}

std::string take_offload_limit(const std::string& text, RunPlan* plan) {
  if (text != "auto" && text != "none") {
    std::string problem = take_size("--offload-limit", "TERRACE_OFFLOAD_LIMIT", text, 1, plan);
    return problem.empty() ? "" : problem + "; or auto, or none";
  }
  add(plan, "TERRACE_OFFLOAD_LIMIT", text);
  return "";
}

std::string take_offload(const RunOptions& options, const Ceiling& ceiling, RunPlan* plan) {
  if (options.offload.empty()) return check_offload_is_asked_for(options);
  plan->offload = true;
  plan->offloads_to_drive = options.offload_tiers.find("nvme") != std::string::npos;
  add(plan, "TERRACE_OFFLOAD", options.offload);
  if (!options.offload_tiers.empty()) add(plan, "TERRACE_OFFLOAD_TIERS", options.offload_tiers);
  for (std::string& problem :
       std::array{check_tiers(options), take_offload_budget(options, ceiling, plan),
                  take_size("--offload-min", "TERRACE_OFFLOAD_MIN", options.offload_min, 1, plan),
                  take_offload_limit(options.offload_limit, plan),
                  take_size("--writes-total", "TERRACE_WRITES_TOTAL", options.writes_total, 1, plan)})
    if (!problem.empty()) return std::move(problem);
  return "";
}

}  // namespace

bool asks_for_expandable_segments(const char* configuration) {
  std::string text = configuration == nullptr ? "" : configuration;
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find("expandable_segments:true") != std::string::npos;
}

std::string take_gpu_options(const RunOptions& options, const Ceiling& ceiling, RunPlan* plan) {
  std::string problem = take_gpu(options, plan);
  return problem.empty() ? take_offload(options, ceiling, plan) : problem;
}

}  // namespace terrace::cli
