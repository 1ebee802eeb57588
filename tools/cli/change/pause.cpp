// `terrace pause JOB`: a job's large memory goes to its pool, and then its processes are stopped.
//
//   budget to the floor ──▶ wait until nothing but that is resident ──▶ SIGSTOP ──▶ the daemon remembers
//            │                             │                              │
//            └───────── a failure, ^C ─────┴──────────────────────────────┴──▶ SIGCONT, budget back
//
// In this order: who moves the memory are threads of the job itself. The daemon holds a budget at the floor
// for 5 s at a time until the job is stopped, so that who dies on the way leaves a job that has its budget
// back (docs/decisions/031). What an offload engine or an optimizer has in host memory leaves in the same
// way, for its drive (docs/decisions/062); what a GPU's driver has pinned does not.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

#include "tools/cli/base/format.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/change/found_job.h"
#include "tools/cli/change/job_processes.h"
#include "tools/cli/change/staying.h"

namespace terrace::cli {

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto between_looks = 20ms;  // a job says ten times a second what it has
// Without a byte that leaves. A drive of 100 MB/s writes a run of 2 MiB in 20 ms.
constexpr auto pausing_patience = 10s;

std::atomic<int> interrupted{0};

void note_interruption(int signal) { interrupted = signal; }

// The daemon grants less a moment after it was asked to.
bool all_are_at_floor(const FoundJob& job) {
  std::uint64_t granted = 0;
  for (const json& process : job.processes()) {
    granted += process.value("granted_bytes", std::uint64_t{0});
    if (!is_at_floor(process)) return false;
  }
  return granted <= job.budget_bytes();
}

// "process 12 has …", or "".
std::string gpu_of(const FoundJob& job, const std::vector<JobProcess>& processes) {
  for (const json& process : job.processes())
    if (process.value("device", "").starts_with("cuda"))
      return fmt::format("process {} offloads tensors of {}", process.value("pid", 0),
                         process.value("device", ""));
  return gpu_of(processes);
}

// What cannot be moved out, before anything is tried.
std::string why_not(const FoundJob& job, const std::vector<JobProcess>& processes) {
  if (const std::string gpu = gpu_of(job, processes); !gpu.empty())
    return fmt::format(
        "it uses a GPU ({}): what lies in GPU memory, and what a driver has pinned, stays where it is. Save "
        "a checkpoint and end the job instead",
        gpu);
  for (const json& process : job.processes())
    if (!is_engine(process) && process.value("pager", "") != "active" &&
        counter_of(process, "heap_live_bytes") != 0)
      return fmt::format(
          "process {} has no pager that could move its memory: its first lines, or `terrace doctor`, say why",
          process.value("pid", 0));
  return "";
}

Failure await_floor(FoundJob* job) {
  std::uint64_t least = ~std::uint64_t{0};
  for (auto since = Clock::now(); Clock::now() - since < pausing_patience;) {
    if (Failure failure = job->ask("pause"); failure.code != exit_ok) return failure;
    if (all_are_at_floor(*job)) return {};
    if (interrupted != 0) return {exit_signalled + interrupted, "interrupted"};
    const std::uint64_t resident = job->total("resident_bytes");
    if (resident < least) since = Clock::now();
    least = std::min(least, resident);
    std::this_thread::sleep_for(between_looks);
  }
  return {exit_failure, why_it_stays(job->shown())};
}

Failure give_up(FoundJob* job, Failure failure) {
  const Failure undone = job->ask("resume");
  failure.text += undone.code == exit_ok ? "; it runs on with its budget as before"
                                         : "; it runs on, and its budget comes back within 5 s";
  return failure;
}

struct Paused {
  Failure failure;
  std::size_t processes = 0;
  double seconds = 0;
};

Paused move_and_stop(FoundJob* job) {
  const auto begin = Clock::now();
  if (Failure failure = await_floor(job); failure.code != exit_ok) return {give_up(job, std::move(failure))};
  const auto stopped = stop_processes(identity_of(*job));
  if (!stopped) return {give_up(job, {exit_failure, stopped.error})};
  // A daemon that died this instant has forgotten the job, which stands all the same.
  if (const Failure failure = job->ask("pause", {{"stays", true}}); failure.code != exit_ok)
    complain(exit_ok, fmt::format("pause {}: the job is stopped, but its daemon does not know: {}",
                                  job->name(), failure.text));
  return {{}, stopped->size(), std::chrono::duration<double>(Clock::now() - begin).count()};
}

void print_paused(const ChangeOptions& options, const FoundJob& job, const Paused& paused,
                  std::uint64_t before) {
  const std::uint64_t after = job.total("resident_bytes");
  if (options.json) {
    const json document{{"format", "terrace-pause"},
                        {"version", 1},
                        {"job", job.name()},
                        {"uid", job.uid()},
                        {"socket", job.socket()},
                        {"processes", paused.processes},
                        {"previous_resident_bytes", before},
                        {"resident_bytes", after},
                        {"seconds", paused.seconds}};
    std::cout << document.dump(2) << '\n';
  } else {
    std::cout << fmt::format(
        "{}: paused; resident {} -> {}, {} processes stopped. 'terrace resume {}' lets it go on\n",
        job.name(), bytes_text(before, options.bytes), bytes_text(after, options.bytes), paused.processes,
        job.name());
  }
}

int pause_job(const ChangeOptions& options, FoundJob& job) {
  const std::uint64_t before = job.total("resident_bytes");
  const std::string reason = why_not(job, processes_of(identity_of(job)));
  if (!reason.empty())
    return complain(exit_usage, fmt::format("{} cannot be paused: {}", job.name(), reason));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, note_interruption);
  const Paused paused = move_and_stop(&job);
  if (paused.failure.code != exit_ok)
    return complain(paused.failure.code,
                    fmt::format("{} is not paused: {}", job.name(), paused.failure.text));
  print_paused(options, job, paused, before);
  return exit_ok;
}

}  // namespace

int pause(const ChangeOptions& options) {
  return with_named_job(options, [&](FoundJob& job) { return pause_job(options, job); });
}

}  // namespace terrace::cli
