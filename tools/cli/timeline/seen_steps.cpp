#include "tools/cli/timeline/seen_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

namespace terrace::cli {

using wire::EventKind;

namespace {

constexpr std::size_t least_like_steps = 2;

bool is_missed_within(const Recording& recording, std::uint64_t begin_ns, std::uint64_t end_ns) {
  return std::any_of(recording.missed_spans.begin(), recording.missed_spans.end(),
                     [&](const MissedSpan& span) { return span.from_ns < end_ns && span.to_ns > begin_ns; });
}

class StepFinder {
 public:
  StepFinder(const Recording& recording, const History& history, const Roles& roles)
      : recording_(recording), history_(history), roles_(roles) {}

  std::vector<SeenStep> find() {
    for (std::size_t i = 0; i < recording_.events.size(); ++i) {
      const JobEvent& event = recording_.events[i];
      if (event.kind == EventKind::step) see_begin(event, i);
      if (event.kind == EventKind::alloc || event.kind == EventKind::free) see_block(event, i);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const SeenStep& a, const SeenStep& b) { return a.begin_ns < b.begin_ns; });
    return std::move(found_);
  }

 private:
  struct Open {
    SeenStep step;
    bool runs = false;
  };

  void see_begin(const JobEvent& event, std::size_t i) {
    Open& open = open_[event.session];
    const bool begins = event.bytes != 0;  // else the program has left what it repeated
    if (open.runs && begins && event.time_ns > open.step.begin_ns) end(&open.step, event, i);
    const std::uint64_t number = open.step.number + (begins ? 1 : 0);
    open.runs = begins;
    open.step = {.session = event.session,
                 .kind = event.address,
                 .number = number,
                 .begin_ns = event.time_ns,
                 .first_event = i + 1};
  }

  void end(SeenStep* step, const JobEvent& event, std::size_t i) {
    step->end_ns = event.time_ns;
    step->end_event = i;
    step->has_gap = is_missed_within(recording_, step->begin_ns, step->end_ns);
    found_.push_back(std::move(*step));
    step->number = found_.back().number;
  }

  void see_block(const JobEvent& event, std::size_t i) {
    const auto open = open_.find(event.session);
    const std::uint32_t object = history_.object_of_event[i];
    if (open == open_.end() || !open->second.runs || object == no_object) return;
    SeenStep& step = open->second.step;
    Role role = roles_.of(object, event.address, step.number);
    role.run = 0;
    step.ticks.push_back({role, event.bytes, event.kind == EventKind::alloc});
    step.tick_ns.push_back(event.time_ns);
  }

  const Recording& recording_;
  const History& history_;
  const Roles& roles_;
  std::unordered_map<std::uint64_t, Open> open_;  // by session
  std::vector<SeenStep> found_;
};

// Those of the process and kind that have taken most time.
std::vector<SeenStep> of_main_kind(std::vector<SeenStep> all) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> ns;
  for (const SeenStep& step : all) ns[{step.session, step.kind}] += step.ns();
  const auto most = std::max_element(ns.begin(), ns.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::erase_if(all, [&](const SeenStep& step) { return std::pair(step.session, step.kind) != most->first; });
  return all;
}

// Of two that came as often, the one that came last.
std::vector<SeenStep> of_one_sequence(std::vector<SeenStep> all) {
  std::map<std::vector<Tick>, std::size_t> times;
  for (const SeenStep& step : all) ++times[step.ticks];
  const std::vector<Tick>* best = nullptr;
  for (const SeenStep& step : all)
    if (best == nullptr || times[step.ticks] >= times[*best]) best = &step.ticks;
  const std::vector<Tick> ticks = *best;
  std::erase_if(all, [&](const SeenStep& step) { return step.ticks != ticks; });
  return all;
}

double recorded_seconds(const Recording& recording) {
  return static_cast<double>(recording.end_ns - recording.begin_ns) / 1e9;
}

std::string longer(const Recording& recording) {
  const double seconds = std::ceil(std::max(4 * recorded_seconds(recording), 10.0));
  return fmt::format("record longer, as with --seconds {:.0f}", seconds);
}

std::string why_no_step(const Recording& recording, const History& history) {
  if (recording.hides_addresses)
    return fmt::format("{} is another user's: only that user and administrators may see its steps",
                       recording.job);
  const std::string seen = fmt::format("in {:.1f} s", recorded_seconds(recording));
  if (history.steps.empty())
    return fmt::format(
        "{}: no step was recognised {}: {}, or give the job a smaller budget ('terrace set {} --dram'): a "
        "job with plenty of memory reports nothing",
        recording.job, seen, longer(recording), recording.job);
  return fmt::format("{}: {} {} began {}, and two must be seen whole: {}", recording.job,
                     history.steps.size(), history.steps.size() == 1 ? "step" : "steps", seen,
                     longer(recording));
}

}  // namespace

Roles::Roles(const Recording& recording, const History& history)
    : history_(history), born_in_(history.objects.size()) {
  std::unordered_map<std::uint64_t, std::uint64_t> number;  // by session
  for (std::size_t i = 0; i < recording.events.size(); ++i) {
    const JobEvent& event = recording.events[i];
    if (event.kind == EventKind::step && event.bytes != 0) ++number[event.session];
    const std::uint32_t object = history.object_of_event[i];
    if (event.kind == EventKind::alloc && object != no_object) born_in_[object] = number[event.session];
  }
}

bool Roles::is_known_by_runs(std::uint32_t object) const {
  return history_.objects[object].born_ns == 0 && history_.objects[object].died_ns == 0;
}

Role Roles::of(std::uint32_t object, std::uint64_t address, std::uint64_t step_number) const {
  const ObjectLife& life = history_.objects[object];
  Role role;
  if (life.place == no_place) {
    role.object = object;
    if (is_known_by_runs(object)) role.run = address;
    return role;
  }
  role.place = life.place;
  role.step_kind = life.step_kind;
  role.age = step_number - std::min(step_number, born_in_[object]);
  return role;
}

Result<LikeSteps> like_steps(const Recording& recording, const History& history, const Roles& roles) {
  std::vector<SeenStep> all = StepFinder(recording, history, roles).find();
  if (all.size() < least_like_steps) return refused<LikeSteps>(why_no_step(recording, history));
  const std::size_t before = all.size();
  std::erase_if(all, [](const SeenStep& step) { return step.has_gap; });
  if (all.size() < least_like_steps)
    return refused<LikeSteps>(
        fmt::format("{}: events were missed within {} of its {} whole steps, and two without gaps are "
                    "needed: the job outran the daemon's journal. Record it while fewer jobs run, or run it "
                    "with a larger --threshold, so that fewer blocks are told of",
                    recording.job, before - all.size(), before));
  all = of_main_kind(std::move(all));
  LikeSteps like{{}, all.size()};
  like.steps = of_one_sequence(std::move(all));
  if (like.steps.size() < least_like_steps)
    return refused<LikeSteps>(
        fmt::format("{}: of the {} whole steps of its main kind no two allocate and free the same: {}",
                    recording.job, like.whole, longer(recording)));
  return ok(std::move(like));
}

}  // namespace terrace::cli
