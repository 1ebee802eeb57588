// `terrace trim [JOB]`: memory that a job keeps for its next allocations goes back to the kernel.
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "tools/cli/base/format.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/change/found_job.h"

namespace terrace::cli {

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr auto trimming_patience = 2s;  // a job says ten times a second what it has

struct Trimmed {
  FoundJob job;
  std::uint64_t processes = 0;
  std::uint64_t recycled_before = 0, resident_before = 0;
};

Trimmed as_it_is(const FoundJob& job) {
  return {job, 0, job.total("recycled_bytes"), job.total("resident_bytes")};
}

// The processes answer by their counters. A job that frees and allocates meanwhile never gets to 0.
void await_trimmed(std::vector<Trimmed>* jobs) {
  const auto end = std::chrono::steady_clock::now() + trimming_patience;
  for (bool done = false; !done && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(100ms);
    done = true;
    for (Trimmed& trimmed : *jobs)
      if (trimmed.job.refresh() && trimmed.job.total("recycled_bytes") != 0) done = false;
  }
}

json json_of_trimmed(const Trimmed& trimmed) {
  return {{"job", trimmed.job.name()},
          {"uid", trimmed.job.uid()},
          {"socket", trimmed.job.socket()},
          {"processes", trimmed.processes},
          {"previous_recycled_bytes", trimmed.recycled_before},
          {"recycled_bytes", trimmed.job.total("recycled_bytes")},
          {"previous_resident_bytes", trimmed.resident_before},
          {"resident_bytes", trimmed.job.total("resident_bytes")}};
}

std::string line_of_trimmed(const Trimmed& trimmed, bool exact) {
  return fmt::format(
      "{}: kept for reuse {} -> {}, resident {} -> {}\n", trimmed.job.name(),
      bytes_text(trimmed.recycled_before, exact), bytes_text(trimmed.job.total("recycled_bytes"), exact),
      bytes_text(trimmed.resident_before, exact), bytes_text(trimmed.job.total("resident_bytes"), exact));
}

void print_trimmed(const ChangeOptions& options, const std::vector<Trimmed>& jobs) {
  json list = json::array();
  for (const Trimmed& trimmed : jobs) {
    if (options.json) list.push_back(json_of_trimmed(trimmed));
    if (!options.json) std::cout << line_of_trimmed(trimmed, options.bytes);
  }
  if (options.json)
    std::cout << json{{"format", "terrace-trim"}, {"version", 1}, {"jobs", std::move(list)}}.dump(2) << '\n';
}

}  // namespace

int trim(const ChangeOptions& options) {
  auto daemons = Daemons::find(options.socket);
  if (!daemons) return complain(exit_no_daemon, daemons.error);
  Failure failure;
  const auto found = options.job.empty() ? find_own_jobs(&*daemons) : find_job(options, &*daemons, &failure);
  if (failure.code != exit_ok) return complain(failure.code, failure.text);
  std::vector<Trimmed> jobs;
  for (const FoundJob& job : found) {
    jobs.push_back(as_it_is(job));
    failure = jobs.back().job.ask("trim");
    if (options.job.empty() && failure.code == exit_not_found) {  // it has ended meanwhile
      jobs.pop_back();
      continue;
    }
    if (failure.code != exit_ok)
      return complain(failure.code, fmt::format("trim {}: {}", job.name(), failure.text));
    jobs.back().processes = jobs.back().job.answer().value("processes", std::uint64_t{0});
  }
  await_trimmed(&jobs);
  print_trimmed(options, jobs);
  if (jobs.empty() && !options.json) std::cout << "no job of yours runs; nothing was trimmed\n";
  return exit_ok;
}

}  // namespace terrace::cli
