#include "tools/cli/run/run_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "liballoc/base/tier_list.h"
#include "liballoc/wire/period/policy_names.h"
#include "liballoc/wire/protocol.h"
#include "tiers/extent_allocator.h"
#include "tiers/memory/node_set.h"
#include "tools/cli/base/format.h"
#include "tools/cli/run/run_plan_gpu.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

// Under less, no program of ours gets as far as its first large allocation.
constexpr std::uint64_t smallest_limit_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t largest_pool_bytes = tiers::ExtentAllocator::max_capacity_bytes;
constexpr std::uint64_t smallest_threshold_bytes = 4096;

// Fills `*out` from one option; the error, or "" when it was absent or fine.
std::string take_budget(const char* option, const std::string& text, const Ceiling& ceiling,
                        std::uint64_t least_bytes, std::optional<std::uint64_t>* out) {
  if (text.empty()) return "";
  auto bytes = resolve_budget(option, text, ceiling, least_bytes);
  *out = bytes.value;
  return bytes.error;
}

std::string check_point(const RunOptions& options, const RunPlan& plan) {
  if (const std::string other = other_program(*plan.point, options.command.front()); !other.empty())
    return fmt::format(
        "--plan {}: {}; record this one's step for a plan of its own, or leave --plan out and say --dram",
        options.plan, other);
  if (!options.weight.empty())
    return fmt::format(
        "--plan {} gives the job a budget of its own, and --weight a part of what is lent: leave one of "
        "them out",
        options.plan);
  if (options.dram.empty() && plan.limit_bytes && *plan.limit_bytes < plan.point->budget_bytes)
    return fmt::format(
        "--plan {}: its budget of {} is more than --limit {}; raise the limit, or choose a smaller --point",
        options.plan, bytes_text(plan.point->budget_bytes), bytes_text(*plan.limit_bytes));
  return "";
}

// What the job is told of the policy before any option has its say.
void take_point_policy(RunPlan* plan) {
  if (wire::is_policy(plan->point->policy))
    plan->environment.emplace_back("TERRACE_POLICY", plan->point->policy);
}

// Once --limit and --dram are known.
std::string take_point(const RunOptions& options, const Ceiling& ceiling, RunPlan* plan) {
  if (options.plan.empty()) return "";
  auto point = load_point(options.plan);
  if (!point) return "--plan " + point.error;
  plan->point = std::move(*point);
  if (std::string problem = check_point(options, *plan); !problem.empty()) return problem;
  take_point_policy(plan);
  if (!options.dram.empty()) return "";
  return take_budget(fmt::format("--plan {}: its budget", options.plan).c_str(),
                     exact_size(plan->point->budget_bytes), ceiling, wire::least_budget_bytes,
                     &plan->dram_bytes);
}

std::string check_against_limit(const RunPlan& plan) {
  if (!plan.dram_bytes || !plan.limit_bytes || *plan.dram_bytes <= *plan.limit_bytes) return "";
  return fmt::format(
      "--dram {} is more than --limit {}: Terrace cannot keep more in DRAM than the job may use; lower "
      "--dram or leave it out, and the budget follows the limit",
      bytes_text(*plan.dram_bytes), bytes_text(*plan.limit_bytes));
}

std::string take_pool_directories(const std::string& text, RunPlan* plan) {
  if (text.empty()) return "";
  auto directories = usable_pool_list(text);
  if (directories) plan->pool_directories = std::move(*directories);
  return directories.error;
}

// At least a pool's smallest.
Result<std::uint64_t> size_on_drive(const char* option, const std::string& text) {
  auto bytes = parse_size(text);
  if (!bytes) return refused<std::uint64_t>(fmt::format("{}: {}", option, bytes.error));
  if (*bytes >= wire::least_pool_bytes) return bytes;
  return refused<std::uint64_t>(
      fmt::format("{} {}: the smallest possible is {}", option, text, bytes_text(wire::least_pool_bytes)));
}

std::string take_pool_size(const std::string& text, RunPlan* plan) {
  if (text.empty()) return "";
  const auto bytes = size_on_drive("--pool-size", text);
  if (!bytes) return bytes.error;
  plan->pool_bytes = *bytes;
  // Where none is named, it is for the daemon to say where the pool will be.
  std::string problem = plan->pool_directories.empty() ? "" : check_pool_room(plan->pool_directories, *plan);
  if (!problem.empty() || *bytes <= largest_pool_bytes) return problem;
  return fmt::format("--pool-size {}: the largest possible is {}", text, bytes_text(largest_pool_bytes));
}

// The engine of offloading counts for itself, in the same record (docs/formats/endurance.md).
std::string take_writes(const std::string& text, RunPlan* plan) {
  if (text.empty()) return "";
  const auto bytes = size_on_drive("--writes-per-day", text);
  if (!bytes) return bytes.error;
  if (plan->pool_directories.size() > 1)
    return "--writes-per-day counts what is written to one drive, and --pool names several: leave one of "
           "them out";
  plan->writes_per_day = *bytes;
  plan->environment.emplace_back("TERRACE_WRITES_PER_DAY", exact_size(*bytes));
  return "";
}

std::string take_weight(const RunOptions& options, RunPlan* plan) {
  if (options.weight.empty()) return "";
  const auto weight = parse_weight(options.weight);
  if (!weight) return weight.error;
  if (plan->dram_bytes || plan->limit_bytes)
    return "--weight divides what is lent to jobs without a budget of their own: leave it out, or --dram and "
           "--limit";
  if (options.is_private)
    return "--weight divides what a daemon lends to several jobs, and --private brings one for this job "
           "alone";
  plan->weight = *weight;
  plan->environment.emplace_back("TERRACE_WEIGHT", options.weight);
  return "";
}

// Where the job names a place of its own; what of the service's NVM it gets, the service says.
std::string check_nvm_place(const liballoc::NvmWish& nvm, const std::string& asked) {
  if (!nvm.names_place()) return "";
  const std::string directory = nvm.directory();
  std::error_code ignored;
  if (!directory.empty() && !fs::is_directory(directory, ignored))
    return fmt::format("--tiers {}: {} is not a directory; name one on persistent memory, or nodes (node1)",
                       asked, directory);
  if (!directory.empty() && access(directory.c_str(), W_OK | X_OK) != 0)
    return fmt::format("--tiers {}: {} cannot be written to ({}); name a directory of yours", asked,
                       directory, std::strerror(errno));
  const std::uint64_t free =
      directory.empty() ? tiers::free_bytes(nvm.nodes()) : free_pool_bytes({directory});
  if (nvm.bytes() <= free) return "";
  return fmt::format("--tiers {}: {} has {} free; ask for less, or name another place", asked, nvm.place(),
                     bytes_text(free));
}

std::string take_tiers(const RunOptions& options, RunPlan* plan) {
  if (options.tiers.empty()) return "";
  liballoc::TierList list;
  if (const char* problem = list.read(options.tiers); problem != nullptr)
    return problem == liballoc::TierList::grammar
               ? fmt::format("--tiers {}: write {}", options.tiers, problem)
               : fmt::format("--tiers {}: {}", options.tiers, problem);
  if (list.compressed().is_wanted() && options.compress == "off")
    return fmt::format("--tiers {} needs compressing, and --compress off forbids it: leave one of them out",
                       options.tiers);
  const auto budget = plan->dram_bytes ? plan->dram_bytes : plan->limit_bytes;
  if (budget && list.compressed().exceeds(*budget))
    return fmt::format("--tiers {}: more than half of the DRAM budget of {}", options.tiers,
                       bytes_text(*budget));
  if (std::string problem = check_nvm_place(list.nvm(), options.tiers); !problem.empty()) return problem;
  plan->environment.emplace_back("TERRACE_TIERS", options.tiers);
  return "";
}

std::string take_threshold(const std::string& text, RunPlan* plan) {
  if (text.empty()) return "";
  const auto bytes = parse_size(text);
  if (!bytes) return "--threshold: " + bytes.error;
  if (*bytes < smallest_threshold_bytes)
    return fmt::format("--threshold {}: the smallest possible is {}", text,
                       bytes_text(smallest_threshold_bytes));
  plan->environment.emplace_back("TERRACE_THRESHOLD", exact_size(*bytes));
  return "";
}

std::string take_name(const RunOptions& options, int pid, RunPlan* plan) {
  constexpr std::size_t most = wire::name_bytes - 1;
  if (options.name.size() > most) return fmt::format("--name: at most {} characters", most);
  const std::string suffix = fmt::format("-{}", pid);
  const std::string program = fs::path(options.command.front()).filename().string();
  plan->job = !options.name.empty() ? options.name : program.substr(0, most - suffix.size()) + suffix;
  return "";
}

void add_environment(const RunOptions& options, RunPlan* plan) {
  const auto add = [plan](const char* variable, const std::string& value) {
    if (!value.empty()) plan->environment.emplace_back(variable, value);
  };
  add("TERRACE_DISABLE", options.disable ? "1" : "");
  // With a limit alone, the library lowers the budget to what the rest of the process leaves.
  const auto dram = plan->dram_bytes ? plan->dram_bytes : plan->limit_bytes;
  add("TERRACE_DRAM", dram ? exact_size(*dram) : "");
  add("TERRACE_POOL_DIR", pool_text(plan->pool_directories));
  add("TERRACE_POOL_SIZE", plan->pool_bytes ? exact_size(*plan->pool_bytes) : "");
  add("TERRACE_JOB", plan->job);
  add("TERRACE_COMPRESS", options.compress);
  add("TERRACE_MOVER", options.mover);
  add("TERRACE_IO", options.io);
  add("TERRACE_POLICY", options.policy);
  add("TERRACE_LOG", options.log);
}

}  // namespace

Result<RunPlan> plan_run(const RunOptions& options, const Ceiling& ceiling, int pid) {
  RunPlan plan;
  if (options.is_private && !options.socket.empty())
    return refused<RunPlan>(
        fmt::format("--private brings a daemon of the job's own, and --socket (or TERRACE_SOCKET) names {}: "
                    "leave one of them out",
                    options.socket));
  for (const std::string& problem :
       {take_budget("--limit", options.limit, ceiling, smallest_limit_bytes, &plan.limit_bytes),
        take_budget("--dram", options.dram, ceiling, wire::least_budget_bytes, &plan.dram_bytes),
        take_point(options, ceiling, &plan), check_against_limit(plan),
        take_pool_directories(options.pool, &plan), take_pool_size(options.pool_size, &plan),
        take_threshold(options.threshold, &plan), take_writes(options.writes_per_day, &plan),
        take_weight(options, &plan), take_tiers(options, &plan), take_name(options, pid, &plan)})
    if (!problem.empty()) return refused<RunPlan>(problem);
  if (const std::string problem = take_gpu_options(options, ceiling, &plan); !problem.empty())
    return refused<RunPlan>(problem);
  add_environment(options, &plan);
  return ok(std::move(plan));
}

std::string check_pool_room(const PoolList& directories, const RunPlan& plan) {
  const std::uint64_t free = free_pool_bytes(directories);
  if (!plan.pool_bytes || *plan.pool_bytes <= free) return "";
  return fmt::format(
      "--pool-size {} cannot be met: the file system of {} has {} free; ask for less or name another "
      "directory with --pool",
      exact_size(*plan.pool_bytes), pool_text(directories), bytes_text(free));
}

std::string before_list(const std::string& first, const char* existing) {
  const std::string before = existing == nullptr ? "" : existing;
  if (before.empty() || before == first) return first;
  return before.starts_with(first + ":") ? before : first + ":" + before;
}

}  // namespace terrace::cli
