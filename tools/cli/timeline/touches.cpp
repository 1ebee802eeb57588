#include "tools/cli/timeline/touches.h"

#include <algorithm>
#include <map>

namespace terrace::cli {

using wire::EventKind;

namespace {

class TouchReader {
 public:
  explicit TouchReader(std::vector<Touch>* into) : into_(*into) {}

  void take(const JobEvent& event, std::uint32_t object) {
    switch (event.kind) {
      case EventKind::fault:
        touch(event, object).is_waited_for = true;
        break;
      case EventKind::restore:
      case EventKind::cancel:
        come_back(event, object);
        break;
      case EventKind::evict:
        runs_.erase(event.address);
        break;
      case EventKind::free:
        runs_.erase(runs_.lower_bound(event.address), runs_.lower_bound(end_of(event)));
        break;
      default:
        break;
    }
  }

 private:
  static std::uint64_t end_of(const JobEvent& event) {
    return event.address + std::min(event.bytes, UINT64_MAX - event.address);
  }

  struct Here {
    bool is_waited_for = false;  // its fault was seen, its return was not
  };

  Here& touch(const JobEvent& event, std::uint32_t object) {
    const auto [run, is_new] = runs_.try_emplace(event.address);
    if (object != no_object) into_.push_back({event.time_ns, event.address, object, !is_new});
    return run->second;
  }

  void come_back(const JobEvent& event, std::uint32_t object) {
    const auto run = runs_.find(event.address);
    if (run != runs_.end() && run->second.is_waited_for)
      run->second.is_waited_for = false;
    else
      touch(event, object);
  }

  std::vector<Touch>& into_;
  std::map<std::uint64_t, Here> runs_;  // touched since they last left
};

}  // namespace

ComputeClock::ComputeClock(const History& history, std::uint64_t session) {
  std::vector<Wait> all;
  for (const ObjectWait& wait : history.waits)
    if (wait.object != no_object && history.objects[wait.object].session == session)
      all.push_back({wait.since_ns, wait.since_ns + wait.ns});
  std::sort(all.begin(), all.end(), [](const Wait& a, const Wait& b) { return a.from_ns < b.from_ns; });
  for (const Wait& wait : all) {
    if (waits_.empty() || wait.from_ns > waits_.back().to_ns)
      waits_.push_back(wait);
    else
      waits_.back().to_ns = std::max(waits_.back().to_ns, wait.to_ns);
  }
  std::uint64_t waited_ns = 0;
  for (Wait& wait : waits_) {
    wait.before_ns = waited_ns;
    waited_ns += wait.to_ns - wait.from_ns;
  }
}

std::uint64_t ComputeClock::at(std::uint64_t time_ns) const {
  const auto after = std::upper_bound(waits_.begin(), waits_.end(), time_ns,
                                      [](std::uint64_t ns, const Wait& wait) { return ns < wait.from_ns; });
  if (after == waits_.begin()) return time_ns;
  const Wait& last = *std::prev(after);
  return time_ns - last.before_ns - (std::min(time_ns, last.to_ns) - last.from_ns);
}

std::vector<Touch> touches_of(const Recording& recording, const History& history, std::uint64_t session) {
  std::vector<Touch> touches;
  TouchReader reader(&touches);
  for (std::size_t i = 0; i < recording.events.size(); ++i)
    if (recording.events[i].session == session) reader.take(recording.events[i], history.object_of_event[i]);
  return touches;
}

}  // namespace terrace::cli
