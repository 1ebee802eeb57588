// `terrace status`: a page for people, one row a daemon for programs and with --watch. Bare `terrace` is the
// same page for a machine that may have no daemon. `terrace jobs` and `terrace tiers` are rows alone.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "tools/cli/base/budget.h"
#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/format.h"
#include "tools/cli/base/json_numbers.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/cgroup/cgroup.h"
#include "tools/cli/daemon/codec_rows.h"
#include "tools/cli/daemon/control_client.h"
#include "tools/cli/daemon/planned_step.h"
#include "tools/cli/daemon/snapshot.h"
#include "tools/cli/terminal/color.h"
#include "tools/cli/watch/watch.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

std::string daemon_line(const json& row) {
  return fmt::format("daemon  {} {}, up {}, at {}\n", row.value("private", false) ? "private" : "shared",
                     row.value("daemon_version", ""),
                     duration_text(static_cast<std::uint64_t>(row.value("uptime_seconds", 0.0) * 1e9)),
                     row.value("socket", ""));
}

// What the machine's shortage of memory does to the budget.
std::string pressure_words(const json& row, bool exact) {
  if (row.contains("dram_lowered_bytes"))
    return fmt::format(" ({} less, while the machine is short of memory)",
                       bytes_text(whole(row, "dram_lowered_bytes"), exact));
  return row.value("follows_pressure", true) ? "" : " (the kernel does not say how short memory is: no PSI)";
}

std::string dram_line(const json& row, bool exact) {
  return fmt::format("DRAM    {} in use, {} promised to jobs, of {}{}\n",
                     bytes_text(whole(row, "dram_used_bytes"), exact),
                     bytes_text(whole(row, "dram_promised_bytes"), exact),
                     bytes_text(whole(row, "dram_capacity_bytes"), exact), pressure_words(row, exact));
}

std::string group_lines(const json& row, bool exact) {
  std::string text;
  const auto found = row.find("groups");
  if (found == row.end() || !found->is_array()) return text;
  for (const json& group : *found) {
    if (!group.is_object()) continue;
    text += fmt::format("group   {}: {} for its jobs, {} of it promised", group.value("group", "?"),
                        bytes_text(whole(group, "budget_bytes"), exact),
                        bytes_text(whole(group, "promised_bytes"), exact));
    if (group.contains("guarantee_bytes"))
      text += fmt::format("; at least {}", bytes_text(whole(group, "guarantee_bytes"), exact));
    if (group.contains("limit_bytes"))
      text += fmt::format("; at most {}", bytes_text(whole(group, "limit_bytes"), exact));
    text += '\n';
  }
  return text;
}

std::string writes_words(const json& row, bool exact) {
  if (!row.contains("pool_writes_left_bytes")) return "";
  return fmt::format("; {} of {} written today, {} left",
                     bytes_text(whole(row, "pool_written_today_bytes"), exact),
                     bytes_text(whole(row, "pool_writes_per_day_bytes"), exact),
                     bytes_text(whole(row, "pool_writes_left_bytes"), exact));
}

std::string pool_line(const json& row, bool exact) {
  return fmt::format("pool    {} in use of {}, in {}{}\n", bytes_text(whole(row, "pool_used_bytes"), exact),
                     bytes_text(whole(row, "pool_capacity_bytes"), exact), row.value("pool_directory", "?"),
                     writes_words(row, exact));
}

std::string gpu_lines(const json& row, bool exact) {
  std::string text;
  const auto found = row.find("gpus");
  if (found == row.end() || !found->is_array()) return text;
  for (const json& gpu : *found)
    if (gpu.is_object())
      text += fmt::format("GPU     {} in use, {} granted, of {}, on {}\n",
                          bytes_text(whole(gpu, "used_bytes"), exact),
                          bytes_text(whole(gpu, "granted_bytes"), exact),
                          bytes_text(whole(gpu, "capacity_bytes"), exact), gpu.value("device", "?"));
  return text;
}

std::string codec_lines(const json& row, const ViewOptions& options) {
  const std::string table = codec_table(row.at("codecs"), {options.bytes, !options.no_headings});
  return table.empty() ? "" : "\n" + table;
}

std::string job_lines(const json& status, const ViewOptions& options) {
  const Rows rows = job_rows(status);
  if (rows.empty()) return "jobs    none\n";
  std::string text = fmt::format(
      "\n{}", render(*choose_columns(job_columns(), {}), rows, {options.bytes, !options.no_headings}));
  for (const json& row : rows) text += plan_line(row);
  return text;
}

void print_page(const std::vector<json>& answers, const ViewOptions& options) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const json row = status_row(answers[i]);
    std::cout << (i == 0 ? "" : "\n") << daemon_line(row) << dram_line(row, options.bytes)
              << group_lines(row, options.bytes) << pool_line(row, options.bytes)
              << gpu_lines(row, options.bytes) << job_lines(answers[i], options) << codec_lines(row, options);
  }
}

int page(const ViewOptions& options) {
  auto daemons = Daemons::find(options.socket);
  if (!daemons) return complain(exit_no_daemon, daemons.error);
  const auto answers = daemons->request({{"verb", "status"}});
  if (!answers) return complain(exit_no_daemon, answers.error);
  print_page(*answers, options);
  return exit_ok;
}

}  // namespace

int status(const ViewOptions& options) {
  const bool as_rows = options.json || options.watch_given || !options.columns.empty();
  if (!as_rows) return page(options);
  return show(options, {"terrace-status", "daemons", status_columns(),
                        [](const json& answer) { return Rows{status_row(answer)}; }, daemon_key});
}

int overview() {
  const Ceiling ceiling = memory_ceiling();
  std::cout << fmt::format("memory  {} at most ({})\n", bytes_text(ceiling.bytes), ceiling.origin);
  auto daemons = Daemons::find("");
  const auto answers = daemons ? daemons->request({{"verb", "status"}}) : refused<std::vector<json>>("");
  if (answers) {
    print_page(*answers, {});
  } else {
    std::cout << "daemon  none; 'terrace run' brings its own\n";
  }
  std::cout << "\nTry:  terrace run --dram 60% -- python3 train.py\n"
               "      terrace doctor      what this machine can do\n"
               "      terrace --help      everything else\n";
  return exit_ok;
}

int jobs(const ViewOptions& options) {
  return show(options, {"terrace-jobs", "jobs", job_columns(), job_rows, job_key});
}

int tiers(const ViewOptions& options) {
  return show(options, {"terrace-tiers", "tiers", tier_columns(), tier_rows, tier_key});
}

}  // namespace terrace::cli
