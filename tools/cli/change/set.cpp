// `terrace set JOB --dram SIZE`: another budget for a job that runs.
#include <fmt/format.h>

#include <iostream>

#include "tools/cli/budget.h"
#include "tools/cli/cgroup.h"
#include "tools/cli/change/found_job.h"
#include "tools/cli/format.h"
#include "tools/cli/verbs.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

void print_set(const FoundJob& job, std::uint64_t before, std::uint64_t after) {
  const json document{{"format", "terrace-set"}, {"version", 1},           {"job", job.name()},
                      {"uid", job.uid()},        {"socket", job.socket()}, {"previous_bytes", before},
                      {"budget_bytes", after}};
  std::cout << document.dump(2) << '\n';
}

int set_budget(const ChangeOptions& options, FoundJob& job, std::uint64_t bytes) {
  const Failure failure = job.ask("set_budget", {{"bytes", bytes}});
  if (failure.code != exit_ok)
    return complain(failure.code, fmt::format("set {}: {}", job.name(), failure.text));
  const std::uint64_t before = job.answer().value("previous_bytes", job.budget_bytes());
  const std::uint64_t after = job.answer().value("budget_bytes", bytes);
  if (options.json) {
    print_set(job, before, after);
  } else {
    std::cout << fmt::format("{}: DRAM budget {} -> {}\n", job.name(), bytes_text(before, options.bytes),
                             bytes_text(after, options.bytes));
  }
  return exit_ok;
}

}  // namespace

int set(const ChangeOptions& options) {
  const auto bytes = resolve_budget("--dram", options.dram, memory_ceiling());
  if (!bytes) return complain(exit_usage, bytes.error);
  return with_named_job(options, [&](FoundJob& job) { return set_budget(options, job, *bytes); });
}

}  // namespace terrace::cli
