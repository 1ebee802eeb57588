// terrace bench timeline: what a recording of a job costs to make sense of, and how soon its page is open.
//
// The recording is made up: a step that allocates, moves out, brings back and frees, again and again. A
// browser without a screen opens the page, where there is one.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "liballoc/heap/space/block.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/measuring/targets.h"
#include "tools/cli/timeline/history.h"
#include "tools/cli/timeline/page.h"

namespace terrace::bench {
namespace {

namespace fs = std::filesystem;

using cli::JobEvent;
using cli::Recording;
using wire::EventKind;

constexpr const char* usage = R"(usage: terrace bench timeline [options]

Makes up a recording, turns it into a page and a trace as `terrace timeline` does, and opens the page in Chromium without a
screen, where Chromium is installed.

  --events N       the recording has so many events (1000000)
  --keep FILE      leave the page in this file
  --json FILE      write all figures into this file)";

constexpr std::uint64_t run = liballoc::run_bytes;
constexpr std::uint64_t runs_of_object = 4;
constexpr std::uint64_t objects_of_step = 500;
constexpr double seconds_to_open = 2;

// Each object: born, its runs out, its runs back (one of them is waited for), dead.
Recording made_up(std::uint64_t events) {
  constexpr std::uint64_t between_ns = 20'000;
  Recording recording;
  recording.job = "made up";
  std::uint64_t now = 1;
  recording.begin_ns = now;
  const auto tell = [&](EventKind kind, std::uint64_t object, std::uint64_t part, std::uint64_t bytes) {
    const std::uint64_t address = (std::uint64_t{1} << 40) + (object * runs_of_object + part) * run;
    recording.events.push_back({.time_ns = now += between_ns,
                                .address = address,
                                .bytes = bytes,
                                .call_site = 4096,
                                .session = 1,
                                .kind = kind});
  };
  while (recording.events.size() < events) {
    for (std::uint64_t object = 0; object < objects_of_step; ++object) {
      tell(EventKind::alloc, object, 0, runs_of_object * run);
      for (std::uint64_t part = 0; part < runs_of_object; ++part) tell(EventKind::evict, object, part, run);
    }
    for (std::uint64_t object = objects_of_step; object-- > 0;) {
      tell(EventKind::fault, object, 0, run);
      for (std::uint64_t part = 0; part < runs_of_object; ++part) {
        tell(EventKind::read_done, object, part, run);
        tell(EventKind::restore, object, part, run);
      }
      tell(EventKind::free, object, 0, runs_of_object * run);
    }
    recording.samples.push_back(
        {.time_ns = now, .live_bytes = run, .resident_bytes = run, .budget_bytes = 2 * run});
  }
  recording.events.resize(events);
  recording.end_ns = now;
  return recording;
}

std::string browser() {
  for (const char* name : {"/usr/bin/chromium", "/usr/bin/google-chrome"})
    if (access(name, X_OK) == 0) return name;
  return "";
}

// What the page says of itself once all of it is drawn. -1: it says nothing.
double opened_ms(const std::string& dom) {
  std::smatch found;
  return std::regex_search(dom, found, std::regex("data-opened-ms=\"([0-9]+)\"")) ? std::stod(found[1]) : -1;
}

template <class Work>
auto timed(const char* name, nlohmann::json* report, const Work& work) {
  const double begin = now_s();
  auto result = work();
  (*report)[name] = now_s() - begin;
  return result;
}

// The browser tells the terminal of services that a machine without a desktop lacks.
void open_page(const fs::path& path, nlohmann::json* report) {
  if (browser().empty()) {
    fmt::print("SKIP: nobody opens the page: no chromium is installed\n");
    return;
  }
  const double begin = now_s();
  const std::string dom = run_captured(
      {"/bin/sh", "-c",
       "exec \"$0\" --headless=new --no-sandbox --disable-gpu --dump-dom \"file://$1\" 2>/dev/null",
       browser(), fs::absolute(path).string()},
      {});
  (*report)["browser_seconds"] = now_s() - begin;
  const double seconds = opened_ms(dom) / 1e3;
  (*report)["opened_seconds"] = seconds;
  fmt::print("drawn {:.2f} s after it was asked for, {:.2f} s after the browser was started\n", seconds,
             (*report)["browser_seconds"].get<double>());
  (*report)["targets"] = nlohmann::ordered_json::array(
      {at_most("the page is drawn, seconds", seconds < 0 ? 1e9 : seconds, seconds_to_open)});
  print_targets((*report)["targets"]);
}

int measure(std::uint64_t events, const std::string& keep, const std::string& json_path) {
  nlohmann::json report = begin_report("terrace-bench-timeline");
  const Recording recording = made_up(events);
  report["events"] = recording.events.size();
  const auto history = timed("history_seconds", &report, [&] { return history_of(recording); });
  report["objects"] = history.objects.size();
  const std::string page = timed("page_seconds", &report, [&] { return html_of(recording, history); });
  report["page_bytes"] = page.size();
  report["trace_bytes"] =
      timed("trace_seconds", &report, [&] { return perfetto_of(recording, history); }).size();
  fmt::print(
      "{} events, {} objects: {:.2f} s to follow them, {:.2f} s and {:.1f} MB for the page, {:.2f} s for the "
      "trace\n",
      recording.events.size(), history.objects.size(), report["history_seconds"].get<double>(),
      report["page_seconds"].get<double>(), static_cast<double>(page.size()) / 1e6,
      report["trace_seconds"].get<double>());
  const fs::path path = keep.empty()
                            ? fs::temp_directory_path() / fmt::format("terrace-timeline-{}.html", getpid())
                            : fs::path(keep);
  std::ofstream(path, std::ios::binary) << page;
  open_page(path, &report);
  if (keep.empty()) fs::remove(path);
  if (!json_path.empty()) write_json(json_path, report);
  return 0;
}

int measure_as_asked(int argc, char** argv) {
  const Arguments arguments(argc, argv, {"--events", "--keep", "--json"}, usage);
  const std::string json_path = arguments.text("--json", "");
  refuse_unwritable(json_path);
  const auto events = static_cast<std::uint64_t>(arguments.number("--events", 1'000'000, 1, 100'000'000));
  return measure(events, arguments.text("--keep", ""), json_path);
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) {
  return terrace::bench::run_as_program(terrace::bench::measure_as_asked, argc, argv);
}
