#include "tools/cli/timeline/recording.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "tools/cli/base/json_numbers.h"

namespace terrace::cli {

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr auto between_looks = 50ms;
constexpr std::size_t most_events_recorded = 4'000'000;  // 190 MB
constexpr std::size_t most_plans_recorded = 10'000;

wire::EventKind kind_named(const std::string& name) {
  for (auto kind = wire::EventKind::alloc; kind < wire::EventKind::count;
       kind = static_cast<wire::EventKind>(static_cast<int>(kind) + 1))
    if (name == wire::name_of(kind)) return kind;
  return wire::EventKind::none;
}

class Recorder {
 public:
  Recorder(FoundJob& job, Recording* into) : job_(job), into_(*into) {}

  // Where the journal is now: what is older is not ours.
  Failure begin() {
    Failure failure = job_.ask("events", {{"since", 0}, {"last", 0}});
    if (failure.code != exit_ok) return failure;
    seen_ = whole(job_.answer(), "last_number");
    into_.begin_ns = whole(job_.answer(), "now_ns");
    lost_before_ = lost_events();
    take_sample(into_.begin_ns);
    return {};
  }

  // False: the job or its daemon has ended.
  bool look() {
    if (job_.ask("events", {{"since", seen_}, {"last", most_events}}).code != exit_ok) return false;
    const json answer = job_.answer();
    // What is missed happened after what was told before, wherever in between.
    const std::uint64_t told_ns = into_.events.empty() ? into_.begin_ns : into_.events.back().time_ns;
    const std::uint64_t before_ns = into_.end_ns == 0 ? into_.begin_ns : std::min(told_ns, into_.end_ns);
    const std::uint64_t missed_before = into_.missed;
    take_events(answer);
    into_.end_ns = whole(answer, "now_ns");
    if (!job_.refresh()) return false;
    take_sample(into_.end_ns);
    into_.missed = gaps_ + (lost_events() - std::min(lost_before_, lost_events()));
    if (into_.missed > missed_before) into_.missed_spans.push_back({before_ns, into_.end_ns});
    return true;
  }

 private:
  void take_events(const json& answer) {
    const json events = answer.value("events", json::array());
    const std::uint64_t last = std::max(whole(answer, "last_number"), seen_);
    gaps_ += last - seen_ - std::min<std::uint64_t>(last - seen_, events.size());
    seen_ = last;
    for (const json& event : events)
      if (event.is_object() && event.value("job", "") == into_.job) take_event(event);
  }

  void take_event(const json& event) {
    const wire::EventKind kind = kind_named(event.value("kind", ""));
    if (kind == wire::EventKind::none) return;
    if (!event.contains("address")) {
      into_.hides_addresses = true;
      return;
    }
    if (into_.events.size() >= most_events_recorded) {
      ++gaps_;
      return;
    }
    into_.events.push_back({.time_ns = whole(event, "time_ns"),
                            .address = whole(event, "address"),
                            .bytes = whole(event, "bytes"),
                            .call_site = whole(event, "call_site"),
                            .session = whole(event, "session"),
                            .kind = kind});
  }

  void take_sample(std::uint64_t now_ns) {
    into_.samples.push_back({.time_ns = now_ns,
                             .live_bytes = job_.total("heap_live_bytes"),
                             .resident_bytes = job_.total("resident_bytes"),
                             .compressed_bytes = job_.total("compressed_bytes"),
                             .stored_bytes = job_.total("stored_bytes"),
                             .budget_bytes = job_.budget_bytes(),
                             .read_bytes = job_.total("read_bytes"),
                             .written_bytes = job_.total("written_bytes"),
                             .stall_ns = job_.total("stall_ns"),
                             .planned_in_bytes = job_.total("planned_in_bytes"),
                             .planned_out_bytes = job_.total("planned_out_bytes")});
    take_plan(now_ns);
  }

  void take_plan(std::uint64_t now_ns) {
    PlannedStep plan = planned_step_of_job(job_.processes());
    const bool is_new = into_.plans.empty() ? plan.is_told() : into_.plans.back().plan != plan;
    if (is_new && into_.plans.size() < most_plans_recorded) into_.plans.push_back({now_ns, std::move(plan)});
  }

  // That the daemon was too late for.
  std::uint64_t lost_events() const {
    std::uint64_t lost = 0;
    for (const json& process : job_.processes()) lost += whole(process, "lost_events");
    return lost;
  }

  FoundJob& job_;
  Recording& into_;
  std::uint64_t seen_ = 0;
  std::uint64_t gaps_ = 0;
  std::uint64_t lost_before_ = 0;
};

}  // namespace

Result<Recording> record(FoundJob& job, double seconds, const std::function<bool()>& goes_on) {
  Recording recording;
  recording.job = job.name();
  const json processes = job.processes();
  if (!processes.empty()) recording.program = processes.front().value("program", "");
  Recorder recorder(job, &recording);
  if (const Failure failure = recorder.begin(); failure.code != exit_ok)
    return refused<Recording>(failure.text);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (goes_on() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(between_looks);
    if (recorder.look()) continue;
    recording.has_ended = true;
    break;
  }
  std::stable_sort(recording.events.begin(), recording.events.end(),
                   [](const JobEvent& a, const JobEvent& b) { return a.time_ns < b.time_ns; });
  return ok(std::move(recording));
}

}  // namespace terrace::cli
