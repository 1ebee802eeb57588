// `terrace set JOB --dram SIZE`, `--weight N` or `--dram-limit SIZE`: another budget for a job that runs,
// another part of what is lent, or a bound for both; `--pool-limit`, `--writes-limit`, `--gpu-limit`: a bound
// of something else that jobs share.
#include <fmt/format.h>

#include <array>
#include <iostream>
#include <string_view>

#include "tools/cli/base/budget.h"
#include "tools/cli/base/format.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/cgroup/cgroup.h"
#include "tools/cli/change/found_job.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

void print_set(const FoundJob& job, const json& change) {
  json document{{"format", "terrace-set"},
                {"version", 1},
                {"job", job.name()},
                {"uid", job.uid()},
                {"socket", job.socket()}};
  document.update(change);
  std::cout << document.dump(2) << '\n';
}

int set_budget(const ChangeOptions& options, FoundJob& job, std::uint64_t bytes) {
  const Failure failure = job.ask("set_budget", {{"bytes", bytes}});
  if (failure.code != exit_ok)
    return complain(failure.code, fmt::format("set {}: {}", job.name(), failure.text));
  const std::uint64_t before = job.answer().value("previous_bytes", job.budget_bytes());
  const std::uint64_t after = job.answer().value("budget_bytes", bytes);
  if (options.json) {
    print_set(job, {{"previous_bytes", before}, {"budget_bytes", after}});
  } else {
    std::cout << fmt::format("{}: DRAM budget {} -> {}\n", job.name(), bytes_text(before, options.bytes),
                             bytes_text(after, options.bytes));
  }
  return exit_ok;
}

int set_weight(const ChangeOptions& options, FoundJob& job, std::uint64_t weight) {
  const Failure failure = job.ask("set_weight", {{"weight", weight}});
  if (failure.code != exit_ok)
    return complain(failure.code, fmt::format("set {}: {}", job.name(), failure.text));
  const std::uint64_t before = job.answer().value("previous_weight", std::uint64_t{1});
  if (options.json) {
    print_set(job, {{"previous_weight", before}, {"weight", weight}});
    return exit_ok;
  }
  const bool is_lent = job.answer().value("is_lent", true);
  std::cout << fmt::format("{}: weight {} -> {}{}\n", job.name(), before, weight,
                           is_lent ? "" : ", once it has no budget of its own");
  return exit_ok;
}

// 0: none.
std::string limit_text(std::uint64_t bytes, bool exact) {
  return bytes == 0 ? "none" : bytes_text(bytes, exact);
}

// A limit of a running job, and how the daemon is asked for it.
struct SettableLimit {
  const char* option;
  std::string ChangeOptions::*text;
  const char* called;
  const char* tier;  // of the daemon's verb, and of the answer's key
};
constexpr std::array settable_limits{
    SettableLimit{"--dram-limit", &ChangeOptions::dram_limit, "DRAM limit", "dram"},
    SettableLimit{"--pool-limit", &ChangeOptions::pool_limit, "pool limit", "pool"},
    SettableLimit{"--writes-limit", &ChangeOptions::writes_limit, "limit of writes a day", "writes"},
    SettableLimit{"--gpu-limit", &ChangeOptions::gpu_limit, "limit of each GPU", "gpu"}};

bool is_dram(const SettableLimit& limit) { return std::string_view(limit.tier) == "dram"; }

int set_limit(const ChangeOptions& options, const SettableLimit& limit, FoundJob& job, std::uint64_t bytes) {
  json request{{"bytes", bytes}};
  if (!is_dram(limit)) request["tier"] = limit.tier;
  const Failure failure = job.ask(is_dram(limit) ? "set_limit" : "set_tier_limit", request);
  if (failure.code != exit_ok)
    return complain(failure.code, fmt::format("set {}: {}", job.name(), failure.text));
  const std::uint64_t before = job.answer().value("previous_limit_bytes", std::uint64_t{0});
  if (options.json) {
    json change = json::object();
    if (is_dram(limit)) change["budget_bytes"] = job.answer().value("budget_bytes", std::uint64_t{0});
    if (before != 0) change["previous_limit_bytes"] = before;
    if (bytes != 0) change[fmt::format("{}_limit_bytes", limit.tier)] = bytes;
    print_set(job, change);
    return exit_ok;
  }
  std::cout << fmt::format("{}: {} {} -> {}\n", job.name(), limit.called, limit_text(before, options.bytes),
                           limit_text(bytes, options.bytes));
  return exit_ok;
}

// A percentage is of the memory that this machine has, and so of DRAM alone.
Result<std::uint64_t> limit_of(const SettableLimit& limit, const std::string& text) {
  if (is_dram(limit)) return resolve_budget(limit.option, text, memory_ceiling());
  auto bytes = parse_size(text);
  if (!bytes) return refused<std::uint64_t>(fmt::format("{}: {}", limit.option, bytes.error));
  if (*bytes == 0)
    return refused<std::uint64_t>(
        fmt::format("{}: no job can work with 0; write none for no limit", limit.option));
  return bytes;
}

int set_limit(const ChangeOptions& options, const SettableLimit& limit) {
  const std::string& text = options.*limit.text;
  if (text == "none")
    return with_named_job(options, [&](FoundJob& job) { return set_limit(options, limit, job, 0); });
  const auto bytes = limit_of(limit, text);
  if (!bytes) return complain(exit_usage, bytes.error);
  return with_named_job(options, [&](FoundJob& job) { return set_limit(options, limit, job, *bytes); });
}

}  // namespace

int set(const ChangeOptions& options) {
  for (const SettableLimit& limit : settable_limits)
    if (!(options.*limit.text).empty()) return set_limit(options, limit);
  if (options.dram.empty() && options.weight.empty())
    return complain(
        exit_usage,
        "set: say what to set, with --dram SIZE, --weight N, or one of --dram-limit, --pool-limit, "
        "--writes-limit and --gpu-limit SIZE");
  if (!options.weight.empty()) {
    const auto weight = parse_weight(options.weight);
    if (!weight) return complain(exit_usage, weight.error);
    return with_named_job(options, [&](FoundJob& job) { return set_weight(options, job, *weight); });
  }
  const auto bytes = resolve_budget("--dram", options.dram, memory_ceiling());
  if (!bytes) return complain(exit_usage, bytes.error);
  return with_named_job(options, [&](FoundJob& job) { return set_budget(options, job, *bytes); });
}

}  // namespace terrace::cli
