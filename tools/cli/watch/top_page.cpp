#include "tools/cli/watch/top_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/cli/base/format.h"
#include "tools/cli/base/json_numbers.h"
#include "tools/cli/daemon/planned_step.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr int bar_width = 16;
constexpr int narrow_bar_width = 12;

std::string bytes(const json& row, const char* name, const TopStyle& style) {
  return row.contains(name) ? bytes_text(static_cast<std::uint64_t>(number(row, name)), style.exact_bytes)
                            : "";
}

// Bytes, not characters: the page is ASCII but for names, and a name cut short does no harm.
std::string cut(const std::string& text, int width) {
  return text.size() <= static_cast<std::size_t>(width)
             ? text
             : text.substr(0, static_cast<std::size_t>(width - 1)) + "~";
}

constexpr int wide_columns = 100;
// Below this the bar goes first: the numbers say more. Then names have what is left, 11 characters at most.
constexpr int bar_columns = 76;
constexpr int narrow_cell_columns = 52;

// `text` in lines of at most `width` bytes, broken at spaces; `indent` spaces before each. A word that is
// longer is broken, too.
std::vector<std::string> wrapped(const std::string& text, int indent, int width) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto room = static_cast<std::size_t>(std::max(width - indent, 1));
    std::size_t end = std::min(text.size(), at + room);
    if (end < text.size())
      if (const std::size_t space = text.rfind(' ', end); space != std::string::npos && space > at)
        end = space;
    lines.push_back(
        cut(std::string(static_cast<std::size_t>(indent), ' ') + text.substr(at, end - at), width));
    at = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return lines;
}

// "200 MiB of 1.00 GiB", with a bar where there is room.
std::string level(const json& row, const char* used, const char* capacity, const TopStyle& style) {
  std::string text = fmt::format("{} of {}", bytes(row, used, style), bytes(row, capacity, style));
  if (style.columns < wide_columns) return text;
  return fmt::format("{} {}", bar(number(row, used), number(row, capacity), bar_width), text);
}

std::string daemon_line(const json& row, const TopStyle& style) {
  return fmt::format("{} daemon  DRAM {}  pool {} in {}", row.value("private", false) ? "private" : "shared",
                     level(row, "dram_used_bytes", "dram_capacity_bytes", style),
                     level(row, "pool_used_bytes", "pool_capacity_bytes", style),
                     row.value("pool_directory", "?"));
}

// One cell of the job table. Narrow terminals leave out what the bar and `terrace jobs` say as well.
struct Cell {
  const char* heading;
  int width;
  bool narrow;
  std::string text;
};

std::vector<Cell> cells_of(const json& row, const TopState& state, const TopStyle& style) {
  const auto rate = [&](const std::string& text) { return state.first ? std::string("-") : text; };
  return {{"PROCS", 5, false, count_text(number(row, "processes"))},
          {"RESIDENT", 9, false, bytes(row, "resident_bytes", style)},
          {"BUDGET", 8, true, bytes(row, "budget_bytes", style)},
          {"STORED", 8, true, bytes(row, "stored_bytes", style)},
          {"FAULTS/s", 8, true, rate(count_text(number(row, "faults")))},
          {"STALL", 6, true, rate(percent_text(number(row, "stall_seconds")))},
          {"READ/s", 8, true, rate(bytes(row, "read_bytes", style))},
          {"WRITE/s", 8, true, rate(bytes(row, "written_bytes", style))}};
}

std::string job_line(const json& row, const std::string& name, const std::string& fill, bool heading,
                     const TopState& state, const TopStyle& style) {
  const bool wide = style.columns >= wide_columns;
  const int name_width = wide ? 20 : std::clamp(style.columns - narrow_cell_columns, 6, 11);
  std::string line = fmt::format("{:<{}}", cut(name, name_width), name_width);
  if (style.columns >= bar_columns) line += fmt::format(" {:<{}}", fill, wide ? bar_width : narrow_bar_width);
  for (const Cell& cell : cells_of(row, state, style))
    if (wide || cell.narrow) line += fmt::format(" {:>{}}", heading ? cell.heading : cell.text, cell.width);
  return line;
}

std::string fill_of(const json& row, const TopStyle& style) {
  const int width = style.columns >= wide_columns ? bar_width : narrow_bar_width;
  return bar(number(row, "resident_bytes"), number(row, "budget_bytes"), width);
}

const char* color_for(const TopJob& job, bool first) {
  const double stall = first ? 0 : number(job.rates, "stall_seconds");
  return stall > 0.25 ? color::red : stall > 0.05 ? color::yellow : color::plain;
}

std::string cause_line(const char* what, double seconds, double whole) {
  return fmt::format("    {:<40} {} {:>6}", what, bar(seconds, whole, bar_width),
                     percent_text(whole > 0 ? seconds / whole : 0));
}

// Shares of the waiting time, the whole of it being the stall counter (or the sample, when events were
// missed).
std::vector<std::string> causes_of(const TopJob& job) {
  if (job.causes.is_hidden) return {};
  const double known = job.causes.known_seconds();
  const double whole = job.complete ? std::max(number(job.rates, "stall_seconds"), known) : known;
  const char* reading = compresses(job.rates) ? "reading back, checking, decoding" : "reading back, checking";
  return {cause_line(reading, job.causes.pool_seconds, whole),
          cause_line("in DRAM, only put back", job.causes.put_back_seconds, whole),
          cause_line("just leaving, taken back", job.causes.leaving_seconds, whole),
          cause_line("first touch, or waiting for free memory", job.complete ? whole - known : 0, whole)};
}

std::string traffic_line(const TopJob& job) {
  const json& row = job.rates;
  return fmt::format("runs: {}/s evicted, {}/s cancelled, {}/s restored ({}/s in time), {}/s read in vain",
                     count_text(number(row, "evictions")), count_text(number(row, "cancelled_evictions")),
                     count_text(number(row, "restores")), count_text(number(row, "prefetch_hits")),
                     count_text(number(row, "prefetch_wasted")));
}

void append(std::vector<std::string>* lines, std::vector<std::string> more) {
  for (std::string& line : more) lines->push_back(std::move(line));
}

// Of a job that repeats itself: since it began, as few steps end within a second.
std::string step_text(const json& row) {
  if (number(row, "step_seconds") <= 0) return "";
  return fmt::format("; a step takes {:.3g} s, {:.2g} s of it waiting", number(row, "step_seconds"),
                     number(row, "step_stall_seconds"));
}

// Of a job with offload engines.
std::string engines_text(const json& row, const TopStyle& style) {
  if (number(row, "engines") <= 0) return "";
  return fmt::format("offload: {} of host memory for tensors of {}", bytes(row, "offload_bytes", style),
                     row.value("devices", "?"));
}

// Of a job with heaps on GPUs.
std::string gpus_text(const json& row, const TopStyle& style) {
  if (!row.contains("gpus")) return "";
  const bool is_over = number(row, "gpu_held_bytes") > number(row, "gpu_granted_bytes");
  return fmt::format("GPU: {} held of {} granted on {}{}", bytes(row, "gpu_held_bytes", style),
                     bytes(row, "gpu_granted_bytes", style), row.value("gpus", "?"),
                     is_over ? "; others wait for this job to give memory back" : "");
}

std::vector<std::string> detail_of(const TopJob& job, const TopStyle& style, const Painter& paint) {
  const double stall = number(job.rates, "stall_seconds");
  const std::string title = fmt::format("{}: waiting {} of the time{}", job.rates.value("job", "?"),
                                        percent_text(stall), step_text(job.rates));
  std::vector<std::string> lines{paint(cut(title, style.columns), color::bold)};
  append(&lines, wrapped(why_slow(job.rates, job.causes, job.complete), 2, style.columns));
  append(&lines, wrapped(planned_text(job.rates, job.causes, job.complete), 2, style.columns));
  append(&lines, wrapped(engines_text(job.rates, style), 2, style.columns));
  append(&lines, wrapped(gpus_text(job.rates, style), 2, style.columns));
  if (stall < 0.001) return lines;
  for (const std::string& line : causes_of(job)) lines.push_back(cut(line, style.columns));
  append(&lines, wrapped(traffic_line(job), 4, style.columns));
  return lines;
}

std::vector<const TopJob*> by_stall(const TopState& state) {
  std::vector<const TopJob*> jobs;
  for (const TopJob& job : state.jobs) jobs.push_back(&job);
  std::stable_sort(jobs.begin(), jobs.end(), [](const TopJob* a, const TopJob* b) {
    return number(a->rates, "stall_seconds") > number(b->rates, "stall_seconds");
  });
  return jobs;
}

std::vector<std::string> job_table(const TopState& state, const TopStyle& style, const Painter& paint) {
  std::vector<std::string> lines{
      paint(cut(job_line({}, "JOB", "IN BUDGET", true, state, style), style.columns), color::bold)};
  for (const TopJob* job : by_stall(state))
    lines.push_back(paint(cut(job_line(job->rates, job->rates.value("job", "?"), fill_of(job->rates, style),
                                       false, state, style),
                              style.columns),
                          color_for(*job, state.first)));
  if (state.jobs.empty()) lines.emplace_back("no job is running");
  return lines;
}

}  // namespace

std::string bar(double part, double whole, int width) {
  if (whole <= 0) return "";
  const int inside = width - 2;
  const int full = static_cast<int>(std::lround(std::clamp(part / whole, 0.0, 1.0) * inside));
  return fmt::format("[{:#<{}}{:.<{}}]", "", full, "", inside - full);
}

std::vector<std::string> top_page(const TopState& state, const TopStyle& style, const Painter& paint) {
  std::vector<std::string> lines{paint("terrace top", color::bold) + "  every second, q quits"};
  if (!state.problem.empty()) lines.push_back(paint(cut(state.problem, style.columns), color::red));
  for (const json& daemon : state.daemons) lines.push_back(cut(daemon_line(daemon, style), style.columns));
  lines.emplace_back("");
  append(&lines, job_table(state, style, paint));
  for (const TopJob* job : by_stall(state)) {
    if (state.first) break;
    lines.emplace_back("");
    append(&lines, detail_of(*job, style, paint));
  }
  if (lines.size() > static_cast<std::size_t>(style.lines))
    lines.resize(static_cast<std::size_t>(style.lines));
  return lines;
}

}  // namespace terrace::cli
