#include <algorithm>
#include <map>

#include "daemon/planner/trace_events.h"
#include "tools/cli/base/format.h"
#include "tools/cli/timeline/page.h"

namespace terrace::cli {

using planner::TraceEvents;

namespace {

// The job's counters stand in a process of their own; its processes follow, by their session's number.
constexpr int job_track = 1;
constexpr int waits_track = 1;
constexpr int steps_track = 2;

class JobEvents {
 public:
  JobEvents(const Recording& recording, const History& history) : recording_(recording), history_(history) {}

  std::string write() {
    events_.name_process(job_track, recording_.job);
    for (const MemorySample& sample : recording_.samples) memory(sample);
    for (const ObjectWait& wait : history_.waits) waited(wait);
    steps();
    for (const auto& [object, absences] : absences_by_object()) object_with(object, absences);
    return events_.text();
  }

 private:
  struct Span {
    std::uint64_t from_ns = 0, to_ns = 0;
  };

  double us(std::uint64_t ns) const {
    return (static_cast<double>(ns) - static_cast<double>(recording_.begin_ns)) / 1e3;
  }

  void memory(const MemorySample& s) {
    const double now = us(s.time_ns);
    events_.counter(job_track, "live", now, "bytes", s.live_bytes);
    events_.counter(job_track, "in DRAM", now, "bytes", s.resident_bytes);
    events_.counter(job_track, "in DRAM, compressed", now, "bytes", s.compressed_bytes);
    events_.counter(job_track, "in the pool", now, "bytes", s.stored_bytes);
    events_.counter(job_track, "budget", now, "bytes", s.budget_bytes);
  }

  int process_of(std::uint32_t object) {
    return process_of_session(object == no_object ? 0 : history_.objects[object].session);
  }
  int process_of_session(std::uint64_t session) {
    const auto [found, is_new] = processes_.try_emplace(session, static_cast<int>(processes_.size()) + 2);
    if (is_new) {
      events_.name_process(found->second, recording_.job + ", process " + std::to_string(session));
      events_.name_track(found->second, waits_track, "waits");
      events_.name_track(found->second, steps_track, "steps");
    }
    return found->second;
  }

  void waited(const ObjectWait& wait) {
    const std::string bytes = wait.object == no_object
                                  ? ""
                                  : "\"object_bytes\":" + std::to_string(history_.objects[wait.object].bytes);
    events_.slice(process_of(wait.object), waits_track, name_of(wait.cause), us(wait.since_ns),
                  us(wait.since_ns + wait.ns), bytes);
  }

  // Each until the next one of its process.
  void steps() {
    std::map<std::uint64_t, const StepBegin*> open;
    for (const StepBegin& step : history_.steps) {
      const StepBegin*& before = open[step.session];
      if (before != nullptr)
        events_.slice(
            process_of_session(step.session), steps_track, "step", us(before->time_ns), us(step.time_ns),
            "\"kind\":" + std::to_string(before->kind) + ",\"events\":" + std::to_string(before->events));
      before = &step;
    }
  }

  std::map<std::uint32_t, std::vector<Span>> absences_by_object() const {
    std::map<std::uint32_t, std::vector<Span>> all;
    for (const Absence& a : history_.absences) all[a.object].push_back({a.from_ns, a.to_ns});
    return all;
  }

  // Within the object's life the times when some of it was away. Objects of which nothing ever left are not
  // told.
  void object_with(std::uint32_t object, std::vector<Span> absences) {
    const ObjectLife& life = history_.objects[object];
    const int process = process_of(object);
    const std::uint64_t born = life.born_ns != 0 ? life.born_ns : recording_.begin_ns;
    const std::uint64_t died = life.died_ns != 0 ? life.died_ns : recording_.end_ns;
    events_.nested_slice(process, object, bytes_text(life.bytes, false), us(born), us(died));
    std::sort(absences.begin(), absences.end(),
              [](const Span& a, const Span& b) { return a.from_ns < b.from_ns; });
    Span now = absences.front();
    for (const Span& next : absences) {
      if (next.from_ns > now.to_ns) {
        events_.nested_slice(process, object, "away", us(now.from_ns), us(now.to_ns));
        now = next;
      }
      now.to_ns = std::max(now.to_ns, next.to_ns);
    }
    events_.nested_slice(process, object, "away", us(now.from_ns), us(now.to_ns));
  }

  const Recording& recording_;
  const History& history_;
  TraceEvents events_;
  std::map<std::uint64_t, int> processes_;
};

}  // namespace

std::string perfetto_of(const Recording& recording, const History& history) {
  return JobEvents(recording, history).write();
}

}  // namespace terrace::cli
