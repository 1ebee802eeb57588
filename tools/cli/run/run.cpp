// `terrace run`: checks what was asked, finds or brings a daemon, and becomes the command, or stays as its
// parent where something remains to be done at the end (a cgroup to remove, a summary to print).
//
// Only a request that cannot be met stops the job, and a service that its user may not use. A missing daemon
// does not: the library works alone.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/files.h"
#include "tools/cli/base/install_layout.h"
#include "tools/cli/base/pool_list.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/daemon/control_client.h"
#include "tools/cli/run/run_daemon.h"
#include "tools/cli/run/run_offload.h"
#include "tools/cli/run/run_plan.h"
#include "tools/cli/run/run_summary.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

// The daemon hears of a job with its first large allocation.
constexpr const char* nothing_large =
    "nothing was large enough for Terrace's heap, or the program does not load it (a static one)";

// Empty removes it: what an outer `terrace run` left must not reach this job.
void set_variable(const char* name, const std::string& value) {
  if (value.empty()) {
    unsetenv(name);
  } else {
    setenv(name, value.c_str(), 1);
  }
}

bool stays_as_parent(const RunOptions& options) {
  return !options.limit.empty() || options.summary || !options.json_summary.empty();
}

// Whether what goes to the pool saves no DRAM. Says what the user would not expect of the directories.
bool look_at_pool(const PoolList& directories) {
  const auto in_memory = std::count_if(directories.begin(), directories.end(), lies_in_memory);
  for (const std::string& directory : directories)
    if (lies_in_memory(directory))
      complain(
          exit_ok,
          fmt::format("the pool directory {} is itself in memory (tmpfs): what goes there saves no DRAM; "
                      "name a directory on a disk with --pool",
                      directory));
  if (const std::string twin = pool_twin(directories); !twin.empty())
    complain(exit_ok,
             fmt::format("the pool directory {} is on the same file system as one before it; name one "
                         "directory on each drive, as two on one drive are no faster",
                         twin));
  return in_memory == static_cast<std::ptrdiff_t>(directories.size());
}

// What is loaded into the job: empty where it is not wanted.
struct Loaded {
  std::string preload, gpu_preload, python_directory;
};

Result<Loaded> find_loaded(const RunPlan& plan, const InstallLayout& layout) {
  const auto preload = layout.preload();
  const auto gpu_preload = plan.gpu ? layout.gpu_preload() : ok(std::filesystem::path());
  const auto python = plan.offload ? layout.python_directory() : ok(std::filesystem::path());
  for (const auto* found : {&preload, &gpu_preload, &python})
    if (!*found) return refused<Loaded>(found->error);
  return ok(Loaded{preload->string(), gpu_preload->string(), python->string()});
}

void put_before(const char* variable, const std::string& first) {
  if (!first.empty()) set_variable(variable, before_list(first, std::getenv(variable)));
}

void apply_environment(const RunPlan& plan, const Loaded& loaded, const JobDaemon& daemon) {
  for (const auto& [name, value] : plan.environment) set_variable(name.c_str(), value);
  put_before("LD_PRELOAD", loaded.gpu_preload);
  put_before("LD_PRELOAD", loaded.preload);
  put_before("PYTHONPATH", loaded.python_directory);
  set_variable("TERRACE_SOCKET", daemon.socket);
  set_variable("TERRACE_DAEMON", daemon.program);
}

Result<JobCgroup> make_cgroup(const RunPlan& plan) {
  const auto own = find_memory_cgroup();
  if (!own)
    return refused<JobCgroup>(
        "no memory cgroup hierarchy is mounted here; mount one (cgroup2) or use --dram instead");
  return JobCgroup::create(*own, plan.limit_bytes);
}

// The daemon keeps the totals of a job after its last process ended.
void ask_for_counters(const std::string& socket, RunReport* report) {
  auto client = ControlClient::connect(socket);
  const auto answer =
      client ? client->request({{"verb", "summary"}, {"job", report->plan.job}, {"uid", getuid()}})
             : refused<json>(client.error);
  report->counters_why = client && client->refused_with() == ENOENT ? nothing_large : answer.error;
  if (!answer) return;
  const json summary = answer->value("summary", json::object());
  report->counters = summary.value("totals", json::object());
  // The processes' own budgets ended with them; the job's is remembered.
  for (const char* name : {"budget_bytes", "pager", "mover", "io"})
    if (summary.contains(name)) report->counters[name] = summary[name];
}

// Returns the exit code for a summary that could not be written, else 0.
int give_summary(const RunOptions& options, const RunReport& report) {
  if (options.summary) std::cerr << summary_text(report);
  if (options.json_summary.empty()) return exit_ok;
  std::ofstream file(options.json_summary);
  file << summary_json(report).dump(2) << '\n';
  file.close();
  return file ? exit_ok
              : complain(exit_failure, fmt::format("cannot write the summary to {}: {}", options.json_summary,
                                                   std::strerror(errno)));
}

// Found out now and not after ten hours of training.
bool can_write(const std::string& file) { return file.empty() || std::ofstream(file, std::ios::app).good(); }

int cannot_start(const std::string& command, const StartFailure& failure) {
  if (failure.entering_cgroup)
    return complain(exit_permission,
                    fmt::format("cannot put the job into its cgroup: {}", std::strerror(failure.error)));
  return complain(exit_code_for_exec_error(failure.error),
                  fmt::format("cannot start {}: {}", command, std::strerror(failure.error)));
}

// Where the job's processes leave what they offloaded, if anybody will read it.
OffloadFile offload_file_for(const RunPlan& plan) {
  if (!plan.offload) return {};
  auto file = OffloadFile::create();
  if (!file) complain(exit_ok, "the summary will not tell what is offloaded: " + file.error);
  set_variable("TERRACE_OFFLOAD_SUMMARY", file ? file->path() : "");
  return file ? std::move(*file) : OffloadFile();
}

int run_as_parent(const RunOptions& options, const RunPlan& plan, bool pool_in_memory,
                  const JobDaemon& daemon, JobCgroup* cgroup) {
  OffloadFile offloaded = offload_file_for(plan);
  RunReport report{
      plan, supervise(options.command, cgroup), {}, {}, {}, nullptr, daemon.why_not, nullptr, pool_in_memory};
  if (!offloaded.path().empty()) report.offload = offloaded.totals();
  offloaded = OffloadFile();  // goes now: end_like() does not return
  if (cgroup != nullptr) {
    read_cgroup(*cgroup, &report);
    if (!cgroup->remove())
      complain(exit_failure,
               fmt::format("processes of the job are still in {}; it stays", cgroup->directory().string()));
  }
  if (report.outcome.failure.error != 0) return cannot_start(options.command.front(), report.outcome.failure);
  if (!daemon.socket.empty()) ask_for_counters(daemon.socket, &report);
  const int written = give_summary(options, report);
  if (written != exit_ok && report.outcome.wait_status == 0) return written;
  end_like(report.outcome.wait_status);
}

// What needs nothing made to be found out: the request can be met, and by whom.
FoundDaemon look_for_daemon(const RunOptions& options, const RunPlan& plan) {
  FoundDaemon found = find_daemon(options, system_socket);
  if (!found.warning.empty()) complain(exit_ok, found.warning);
  if (found.refusal.empty() && !options.disable) found.refusal = refusal_of(found.daemon.socket, plan);
  if (!found.refusal.empty() && found.code == exit_ok) found.code = exit_usage;
  return found;
}

// In this order: the cgroup first (version 2 wants this process alone in its own), then the daemon, then the
// job.
int launch(const RunOptions& options, const RunPlan& plan, const InstallLayout& layout,
           const Loaded& loaded) {
  const FoundDaemon found = look_for_daemon(options, plan);
  if (!found.refusal.empty()) return complain(found.code, found.refusal);
  auto cgroup = stays_as_parent(options) ? make_cgroup(plan) : refused<JobCgroup>("");
  if (!cgroup && plan.limit_bytes) return complain(exit_permission, "--limit: " + cgroup.error);
  // Without a limit of its own, a job inside another one stays under that one's.
  if (cgroup && plan.limit_bytes) set_variable("TERRACE_LIMIT_CGROUP", cgroup->directory().string());
  if (cgroup && plan.limit_bytes && !options.disable) cgroup->let_wait(*plan.limit_bytes);
  const JobDaemon daemon = found.brings_own ? bring_daemon(options, plan, layout) : found.daemon;
  if (!daemon.why_not.empty() && plan.writes_per_day && !options.disable) {
    if (cgroup) cgroup->remove();
    return complain(exit_failure, "--writes-per-day: there is no daemon that could count: " + daemon.why_not);
  }
  if (!daemon.why_not.empty() && !options.disable)
    complain(exit_ok, "running without a daemon: " + daemon.why_not);
  if (found.brings_own && plan.weight != 0)
    complain(
        exit_ok,
        "--weight has no effect: no daemon serves several jobs here, and this job gets a daemon of its own");
  const bool pool_in_memory = !options.disable && look_at_pool(pool_directories_of(daemon, plan));
  apply_environment(plan, loaded, daemon);
  if (stays_as_parent(options))
    return run_as_parent(options, plan, pool_in_memory, daemon, cgroup ? &*cgroup : nullptr);
  return cannot_start(options.command.front(), {execute(options.command), false});
}

}  // namespace

int run(const RunOptions& options) {
  if (options.command.empty())
    return complain(exit_usage, "run: no command given; try: terrace run --dram 60% -- python3 train.py");
  const InstallLayout layout = InstallLayout::of_this_program();
  const auto plan = plan_run(options, memory_ceiling(), getpid());
  if (!plan) return complain(exit_usage, plan.error);
  const auto loaded = find_loaded(*plan, layout);
  if (!loaded) return complain(exit_failure, loaded.error);
  if (!can_write(options.json_summary))
    return complain(exit_usage,
                    fmt::format("--json-summary {}: {}", options.json_summary, std::strerror(errno)));
  return launch(options, *plan, layout, *loaded);
}

}  // namespace terrace::cli
