#include "tools/cli/top_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/format.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr int bar_width = 16;

double number(const json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

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

std::string daemon_line(const json& row, const TopStyle& style) {
  return fmt::format("{} daemon  DRAM {} {} of {}   pool {} {} of {} in {}",
                     row.value("private", false) ? "private" : "system",
                     bar(number(row, "dram_used_bytes"), number(row, "dram_capacity_bytes"), bar_width),
                     bytes(row, "dram_used_bytes", style), bytes(row, "dram_capacity_bytes", style),
                     bar(number(row, "pool_used_bytes"), number(row, "pool_capacity_bytes"), bar_width),
                     bytes(row, "pool_used_bytes", style), bytes(row, "pool_capacity_bytes", style),
                     row.value("pool_directory", "?"));
}

std::string heading() {
  return fmt::format("{:<18} {:>5}  {:<18} {:>9} {:>9} {:>9} {:>8} {:>6} {:>11} {:>11}", "JOB", "PROCS",
                     "RESIDENT/BUDGET", "RESIDENT", "BUDGET", "STORED", "FAULTS/s", "STALL", "READ/s",
                     "WRITE/s");
}

std::string job_line(const TopJob& job, const TopState& state, const TopStyle& style) {
  const json& row = job.rates;
  const auto rate = [&](const char* name) {
    return state.first ? std::string("-") : bytes(row, name, style);
  };
  return fmt::format("{:<18} {:>5}  {:<18} {:>9} {:>9} {:>9} {:>8} {:>6} {:>11} {:>11}",
                     cut(row.value("job", "?"), 18), static_cast<int>(number(row, "processes")),
                     bar(number(row, "resident_bytes"), number(row, "budget_bytes"), bar_width),
                     bytes(row, "resident_bytes", style), bytes(row, "budget_bytes", style),
                     bytes(row, "stored_bytes", style), state.first ? "-" : count_text(number(row, "faults")),
                     state.first ? "-" : percent_text(number(row, "stall_seconds")), rate("read_bytes"),
                     rate("written_bytes"));
}

const char* color_for(const TopJob& job, bool first) {
  const double stall = first ? 0 : number(job.rates, "stall_seconds");
  return stall > 0.25 ? color::red : stall > 0.05 ? color::yellow : color::plain;
}

std::string cause_line(const char* what, double seconds, double whole) {
  return fmt::format("    {:<38} {} {:>6}", what, bar(seconds, whole, bar_width),
                     percent_text(whole > 0 ? seconds / whole : 0));
}

// Shares of the waiting time, the whole of it being the stall counter (or the sample, when events were
// missed).
std::vector<std::string> causes_of(const TopJob& job) {
  const double known = job.causes.known_seconds();
  const double whole = job.complete ? std::max(number(job.rates, "stall_seconds"), known) : known;
  return {cause_line("reading back from the pool", job.causes.pool_seconds, whole),
          cause_line("in DRAM, only put back", job.causes.put_back_seconds, whole),
          cause_line("just leaving, taken back", job.causes.leaving_seconds, whole),
          cause_line("first touch, or waiting for free memory", job.complete ? whole - known : 0, whole)};
}

std::string traffic_line(const TopJob& job) {
  const json& row = job.rates;
  return fmt::format(
      "    a second: {} runs evicted, {} cancelled, {} restored, {} of them in time; {} read in vain",
      count_text(number(row, "evictions")), count_text(number(row, "cancelled_evictions")),
      count_text(number(row, "restores")), count_text(number(row, "prefetch_hits")),
      count_text(number(row, "prefetch_wasted")));
}

std::vector<std::string> detail_of(const TopJob& job, const Painter& paint) {
  const double stall = number(job.rates, "stall_seconds");
  std::vector<std::string> lines{
      paint(fmt::format("{}: waiting {}: {}", job.rates.value("job", "?"), percent_text(stall),
                        why_slow(job.rates, job.causes, job.complete)),
            color::bold)};
  if (stall < 0.001) return lines;
  for (std::string& line : causes_of(job)) lines.push_back(std::move(line));
  lines.push_back(traffic_line(job));
  return lines;
}

void append(std::vector<std::string>* lines, std::vector<std::string> more) {
  for (std::string& line : more) lines->push_back(std::move(line));
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
  std::vector<std::string> lines{paint(heading(), color::bold)};
  for (const TopJob* job : by_stall(state))
    lines.push_back(paint(cut(job_line(*job, state, style), style.columns), color_for(*job, state.first)));
  if (state.jobs.empty()) lines.emplace_back("no job is running");
  return lines;
}

}  // namespace

std::string bar(double part, double whole, int width) {
  if (whole <= 0) return "";
  const int inside = width - 2;
  const int full = static_cast<int>(std::clamp(part / whole, 0.0, 1.0) * inside + 0.5);
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
    append(&lines, detail_of(*job, paint));
  }
  if (lines.size() > static_cast<std::size_t>(style.lines))
    lines.resize(static_cast<std::size_t>(style.lines));
  return lines;
}

}  // namespace terrace::cli
