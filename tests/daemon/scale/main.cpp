// Whether the daemon holds at scale: the real terraced, real sockets, real segments.
//
//   grants  1,000 sessions are joined and ten clients ask it a hundred times a second each. Others join and
//           leave meanwhile: how long they wait for their budget, and whether the watchdog is fed.
//   events  1,024 sessions write 10,000 events a second: processor time and memory. First each ring is
//   written
//           full several times, so that the daemon is as large as after a long while.
//   plans   a job sends a period of 10,000 objects: how long it waits for the plan; and eight jobs send one a
//           second each: how long others wait for their budget meanwhile.
//   scrapes 1,000 sessions are joined, and somebody reads metrics eight times a second: what writing them
//           takes, and how long others wait for their budget meanwhile.
//
//   terrace-daemon-scale --short               a few seconds each, with bounds that a busy machine can keep
//   terrace-daemon-scale --json FILE           half a minute each, with the bounds that count
//
// Exit codes: 0 within the bounds, 1 not, 77 the machine lacks something. Only root can be several users, and
// one user has at most 256 sessions.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/daemon/scale/askers.h"
#include "tests/daemon/scale/measured_daemon.h"
#include "tests/daemon/scale/planned.h"
#include "tests/daemon/scale/scrapes.h"
#include "tests/daemon/scale/sessions.h"

namespace terrace::tests::scale {
namespace {

using nlohmann::json;

struct Bounds {
  double grant_ms;
  double cpu_percent;
  double resident_mib;
  double plan_ms;
  double render_ms;
};
constexpr Bounds asked_for{100, 1, 64, 100, 5};
// A machine of two processors that also does something else makes anybody wait for tens of milliseconds.
constexpr Bounds on_a_busy_machine{400, 3, 64, 400, 20};

struct Options {
  bool is_short = false;
  std::string json_path;
  std::string command = "terrace-daemon-scale";
  int seconds = 30;
};

constexpr uid_t newcomer = 60900;

double ms(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }
double in_mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Joins, waits and leaves again, now as a user with many sessions, now as one with none: then everybody's
// share of the machine changes. Waits in nanoseconds; ten seconds for a grant that did not come.
std::vector<std::uint64_t> wait_for_grants(const std::string& socket, int seconds) {
  std::vector<std::uint64_t> waits;
  const std::uint64_t end = clock_ns() + static_cast<std::uint64_t>(seconds) * 1'000'000'000;
  for (int i = 0; clock_ns() < end; ++i) {
    const std::uint64_t began = clock_ns();
    const auto joined = join(socket, i % 2 == 0 ? newcomer : Sessions::first_user, "late", /*map=*/false);
    waits.push_back(joined ? clock_ns() - began : 10'000'000'000);
    ::usleep(static_cast<useconds_t>(20'000 + i % 7 * 1'000));  // not in step with the daemon's rounds
  }
  return waits;
}

json measure_grants(const std::string& program, const Options& options) {
  MeasuredDaemon daemon(program);
  Sessions sessions;
  if (const auto error = sessions.join_all(daemon.socket(), 1000, Sessions::per_user); !error.empty())
    return {{"error", error}};
  sessions.follow();
  sessions.write_events(10'000);
  Askers askers;  // as ten users, each of whom has a time of his own to be answered in; four of them own the
                  // sessions
  std::vector<uid_t> users{0};
  for (uid_t i = 0; i < 9; ++i) users.push_back(Sessions::first_user + i);
  askers.start(daemon.socket(), users, 100);
  const std::uint64_t cpu = daemon.cpu_ns(), began = clock_ns();
  std::vector<std::uint64_t> waits = wait_for_grants(daemon.socket(), options.seconds);
  const double cpu_percent =
      100.0 * static_cast<double>(daemon.cpu_ns() - cpu) / static_cast<double>(clock_ns() - began);
  std::sort(waits.begin(), waits.end());
  const auto part = [&](std::size_t percent) {
    return ms(waits[std::min(waits.size() - 1, waits.size() * percent / 100)]);
  };
  return {{"sessions", sessions.size()},
          {"sessions_lost", sessions.closed()},
          {"grants", waits.size()},
          {"grant_p50_ms", part(50)},
          {"grant_p99_ms", part(99)},
          {"grant_max_ms", ms(waits.back())},
          {"requests", askers.asked() + askers.held_back()},
          {"requests_held_back", askers.held_back()},
          {"answers", askers.answered()},
          {"askers_disconnected", askers.disconnected()},
          {"cpu_percent_of_one_core", cpu_percent},
          {"peak_resident_mib", in_mib(daemon.peak_resident_bytes())},
          {"watchdog_limit_ms", ms(MeasuredDaemon::watchdog_us * 1000)},
          {"watchdog_pings", daemon.pings()},
          {"watchdog_longest_silence_ms", ms(daemon.longest_silence_ns())}};
}

struct Waits {
  std::vector<std::uint64_t> sorted;  // nanoseconds
  explicit Waits(std::vector<std::uint64_t> waits) : sorted(std::move(waits)) {
    std::sort(sorted.begin(), sorted.end());
  }
  double part(std::size_t percent) const {
    return ms(sorted[std::min(sorted.size() - 1, sorted.size() * percent / 100)]);
  }
};

json measure_plans(const std::string& program, const Options& options) {
  constexpr int alone = 10;
  constexpr std::size_t jobs = 8;
  MeasuredDaemon daemon(program);
  PlannedSessions sessions("g10");
  if (const auto error = sessions.join_all(daemon.socket(), Sessions::first_user, jobs); !error.empty())
    return {{"error", error}};
  std::vector<std::uint64_t> plans;
  for (int i = 0; i < alone; ++i) {
    plans.push_back(sessions.plan_once(static_cast<std::size_t>(i) % jobs));
    if (plans.back() == 0) return {{"error", "no plan: " + sessions.last_refusal()}};
  }
  const Waits alone_waits(plans);
  sessions.rest();
  const Waits before(wait_for_grants(daemon.socket(), options.seconds));
  sessions.stop();
  const std::uint64_t planned_before = sessions.plans();
  sessions.keep_planning();
  const Waits meanwhile(wait_for_grants(daemon.socket(), options.seconds));
  sessions.stop();
  return {{"objects", PlannedSessions::objects},
          {"jobs", jobs},
          {"plan_p50_ms", alone_waits.part(50)},
          {"plan_max_ms", ms(alone_waits.sorted.back())},
          {"plans_meanwhile", sessions.plans() - planned_before},
          {"grant_p99_ms_before", before.part(99)},
          {"grant_p99_ms_meanwhile", meanwhile.part(99)},
          {"grant_max_ms_meanwhile", ms(meanwhile.sorted.back())},
          {"peak_resident_mib", in_mib(daemon.peak_resident_bytes())},
          {"watchdog_longest_silence_ms", ms(daemon.longest_silence_ns())}};
}

json measure_events(const std::string& program, const Options& options) {
  MeasuredDaemon daemon(program);
  Sessions sessions;
  if (const auto error = sessions.join_all(daemon.socket(), 1024, 256); !error.empty())
    return {{"error", error}};
  sessions.follow();
  options.is_short ? sessions.age(1, 2048) : sessions.age(3, 8192);
  sessions.write_events(10'000);
  ::sleep(options.is_short ? 5 : 16);  // it takes in some 600,000 of those a second
  const std::uint64_t cpu = daemon.cpu_ns(), began = clock_ns(), written = sessions.written();
  ::sleep(static_cast<unsigned>(options.seconds));
  const double elapsed_ns = static_cast<double>(clock_ns() - began);
  return {{"sessions", sessions.size()},
          {"sessions_lost", sessions.closed()},
          {"seconds", elapsed_ns / 1e9},
          {"events_per_second", static_cast<double>(sessions.written() - written) / (elapsed_ns / 1e9)},
          {"cpu_percent_of_one_core", 100.0 * static_cast<double>(daemon.cpu_ns() - cpu) / elapsed_ns},
          {"resident_mib", in_mib(daemon.resident_bytes())},
          {"peak_resident_mib", in_mib(daemon.peak_resident_bytes())},
          {"watchdog_pings", daemon.pings()},
          {"watchdog_longest_silence_ms", ms(daemon.longest_silence_ns())}};
}

// 1,000 sessions of as many jobs, once with somebody who asks for metrics eight times a second and once
// without.
json measure_scrapes(const std::string& program, const Options& options) {
  MeasuredDaemon daemon(program);
  Sessions sessions;
  if (const auto error = sessions.join_all(daemon.socket(), 1000, Sessions::per_user); !error.empty())
    return {{"error", error}};
  sessions.follow();
  const auto cpu_percent_of = [&](auto&& action) {
    const std::uint64_t cpu = daemon.cpu_ns(), began = clock_ns();
    action();
    return 100.0 * static_cast<double>(daemon.cpu_ns() - cpu) / static_cast<double>(clock_ns() - began);
  };
  std::vector<std::uint64_t> quiet, asked;
  const double quiet_percent =
      cpu_percent_of([&] { quiet = wait_for_grants(daemon.socket(), options.seconds); });
  Scraper scraper;
  scraper.start(daemon.metrics(), 8);
  const double asked_percent =
      cpu_percent_of([&] { asked = wait_for_grants(daemon.socket(), options.seconds); });
  scraper.stop();
  const std::string text = scrape(daemon.metrics());
  const double renders = sample_of(text, "terrace_metrics_renders_total").value_or(0);
  const double seconds = sample_of(text, "terrace_metrics_render_seconds_total").value_or(0);
  const Waits before(std::move(quiet)), meanwhile(std::move(asked));
  return {{"sessions", sessions.size()},
          {"answer_bytes", text.size()},
          {"answers", scraper.answers()},
          {"failures", scraper.failures()},
          {"renders", renders},
          {"render_ms_mean", renders == 0 ? 0 : 1000 * seconds / renders},
          {"cpu_percent_before", quiet_percent},
          {"cpu_percent_meanwhile", asked_percent},
          {"grant_p99_ms_before", before.part(99)},
          {"grant_max_ms_before", ms(before.sorted.back())},
          {"grant_p99_ms_meanwhile", meanwhile.part(99)},
          {"grant_max_ms_meanwhile", ms(meanwhile.sorted.back())},
          {"peak_resident_mib", in_mib(daemon.peak_resident_bytes())}};
}

// Says a figure and whether it is within its bound.
bool judge(const json& of, const char* name, double most) {
  const bool holds = of.contains(name) && of[name].get<double>() <= most;
  fmt::print("{} {}: {} (at most {})\n", holds ? "ok    " : "MISSED", name,
             of.contains(name) ? of[name].dump() : of.dump(), most);
  return holds;
}

bool judge_least(const json& of, const char* name, double least) {
  const bool holds = of.contains(name) && of[name].get<double>() >= least;
  fmt::print("{} {}: {} (at least {})\n", holds ? "ok    " : "MISSED", name,
             of.contains(name) ? of[name].dump() : of.dump(), least);
  return holds;
}

bool judge_all(const json& grants, const json& events, const json& plans, const json& scrapes,
               const Options& options) {
  const Bounds& bounds = options.is_short ? on_a_busy_machine : asked_for;
  const double limit_ms = ms(MeasuredDaemon::watchdog_us * 1000);
  bool holds = judge(grants, "grant_max_ms", bounds.grant_ms);
  holds &= judge(grants, "watchdog_longest_silence_ms", limit_ms);
  holds &= judge_least(grants, "watchdog_pings", options.seconds);
  holds &= judge_least(grants, "requests", 800.0 * options.seconds);
  holds &= judge_least(grants, "answers", options.seconds);
  holds &= judge(grants, "sessions_lost", 0);
  holds &= judge(grants, "askers_disconnected", 0);
  holds &= judge_least(events, "events_per_second", 9'000);
  holds &= judge(events, "cpu_percent_of_one_core", bounds.cpu_percent);
  holds &= judge(events, "peak_resident_mib", bounds.resident_mib);
  holds &= judge(events, "sessions_lost", 0);
  holds &= judge(events, "watchdog_longest_silence_ms", limit_ms);
  holds &= judge(plans, "plan_p50_ms", bounds.plan_ms);
  holds &= judge(plans, "grant_max_ms_meanwhile", bounds.grant_ms);
  holds &= judge_least(plans, "plans_meanwhile", options.seconds);
  holds &= judge(scrapes, "grant_max_ms_meanwhile", bounds.grant_ms);
  holds &= judge(scrapes, "render_ms_mean", bounds.render_ms);
  holds &= judge(scrapes, "failures", 0);
  holds &= judge(scrapes, "renders", options.seconds + 2.0);
  holds &= judge_least(scrapes, "answers", 2.0 * options.seconds);
  return holds;
}

std::string first_line(const std::string& command) {
  std::array<char, 256> line{};
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  const bool got = std::fgets(line.data(), line.size(), pipe) != nullptr;
  ::pclose(pipe);
  std::string text = got ? line.data() : "";
  return text.substr(0, text.find('\n'));
}

json view_machine() {
  utsname name{};
  ::uname(&name);
  return {{"cpu", first_line("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo")},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * 4096},
          {"kernel", name.release}};
}

bool parse(int argc, char** argv, Options* options) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const std::string& word : words) options->command += " " + word;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--short") {
      options->is_short = true;
      options->seconds = 3;
    } else if (words[i] == "--json" && has_value) {
      options->json_path = words[++i];
    } else if (words[i] == "--seconds" && has_value) {
      options->seconds = std::stoi(words[++i]);
    } else {
      return false;
    }
  }
  return options->seconds > 0;
}

// "" or why this machine cannot.
std::string missing() {
  if (::geteuid() != 0) return "only root can connect as several users, and one has at most 256 sessions";
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 8192) return "the hard limit on descriptors is below 8192";
  return {};
}

int run(const Options& options) {
  const std::string program = TERRACED_PATH;
  json grants = measure_grants(program, options);
  // Another program may have had both processors meanwhile. A daemon that is at fault misses twice.
  if (options.is_short && grants.value("grant_max_ms", 0.0) > on_a_busy_machine.grant_ms)
    grants = measure_grants(program, options);
  const json events = measure_events(program, options);
  const json plans = measure_plans(program, options);
  const json scrapes = measure_scrapes(program, options);
  const bool holds = judge_all(grants, events, plans, scrapes, options);
  const json result{{"format", "terrace-daemon-scale"},
                    {"version", 1},
                    {"command", options.command},
                    {"commit", first_line("git -C " TERRACE_SOURCE_DIR " rev-parse --short HEAD")},
                    {"machine", view_machine()},
                    {"grants", grants},
                    {"events", events},
                    {"plans", plans},
                    {"scrapes", scrapes},
                    {"within_bounds", holds}};
  fmt::print("{}\n", result.dump(2));
  if (!options.json_path.empty()) std::ofstream(options.json_path) << result.dump(2) << '\n';
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace terrace::tests::scale

int main(int argc, char** argv) {
  using namespace terrace::tests::scale;
  Options options;
  if (!parse(argc, argv, &options)) {
    fmt::print(stderr, "Usage: terrace-daemon-scale [--short] [--seconds N] [--json FILE]\n");
    return 2;
  }
  if (const std::string reason = missing(); !reason.empty()) {
    fmt::print("SKIP: {}\n", reason);
    return 77;
  }
  return run(options);
}
