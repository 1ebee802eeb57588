#include "tools/cli/timeline/history.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "liballoc/heap/space/address_space.h"

namespace terrace::cli {

using wire::EventKind;

namespace {

using liballoc::run_bytes;

struct Place {
  std::uint64_t session = 0;
  std::uint64_t address = 0;
  friend bool operator<(const Place& a, const Place& b) {
    return std::tie(a.session, a.address) < std::tie(b.session, b.address);
  }
};

bool is_of_run(EventKind kind) {
  return kind != EventKind::alloc && kind != EventKind::free && kind != EventKind::step;
}

// Which object lies where now, by first address.
class Living {
 public:
  explicit Living(const std::vector<ObjectLife>& objects) : objects_(objects) {}

  void add(std::uint32_t object) {
    const ObjectLife& life = objects_[object];
    living_[{life.session, life.address}] = object;
  }
  std::uint32_t take(const Place& place) {
    const auto found = living_.find(place);
    if (found == living_.end()) return no_object;
    const std::uint32_t object = found->second;
    living_.erase(found);
    return object;
  }
  // Whose run it is: the object that its first byte is of, else the first that begins on it.
  std::uint32_t of_run(const Place& run) const {
    const auto after = living_.upper_bound(run);
    if (after != living_.begin()) {
      const auto& [place, object] = *std::prev(after);
      if (place.session == run.session && run.address - place.address < objects_[object].bytes) return object;
    }
    const bool begins_on_it = after != living_.end() && after->first.session == run.session &&
                              after->first.address - run.address < run_bytes;
    return begins_on_it ? after->second : no_object;
  }

 private:
  const std::vector<ObjectLife>& objects_;
  std::map<Place, std::uint32_t> living_;
};

// Those that were there before: of which a death was seen without a birth, and runs that belong to no other.
class Elders {
 public:
  explicit Elders(std::vector<ObjectLife>* objects) : objects_(*objects) {}

  void find(const std::vector<JobEvent>& events) {
    find_by_deaths(events);
    const std::size_t by_deaths = objects_.size();
    find_by_runs(events);
    join_neighbours(by_deaths);
  }

 private:
  void find_by_deaths(const std::vector<JobEvent>& events) {
    std::map<Place, bool> is_born;
    for (const JobEvent& event : events) {
      const Place place{event.session, event.address};
      if (event.kind == EventKind::alloc) is_born[place] = true;
      if (event.kind != EventKind::free) continue;
      if (!is_born[place]) objects_.push_back(life_of(event));
      is_born[place] = false;
    }
  }

  // Follows all lives through time, and takes every run that is nobody's for an object of its own.
  void find_by_runs(const std::vector<JobEvent>& events) {
    std::vector<ObjectLife> lives = objects_;
    std::vector<ObjectLife> found;
    lives.reserve(lives.size() + events.size());  // Living refers to it
    Living living(lives);
    for (std::uint32_t object = 0; object < lives.size(); ++object) living.add(object);
    for (const JobEvent& event : events) {
      const Place place{event.session, event.address};
      if (event.kind == EventKind::free) living.take(place);
      if (event.kind == EventKind::free || event.kind == EventKind::step) continue;
      if (is_of_run(event.kind) && living.of_run(place) != no_object) continue;
      lives.push_back(life_of(event));
      if (is_of_run(event.kind)) lives.back().bytes = run_bytes;
      if (is_of_run(event.kind)) found.push_back(lives.back());
      living.add(static_cast<std::uint32_t>(lives.size() - 1));
    }
    objects_.insert(objects_.end(), found.begin(), found.end());
  }

  void join_neighbours(std::size_t from) {
    const auto begin = objects_.begin() + static_cast<std::ptrdiff_t>(from);
    std::sort(begin, objects_.end(), [](const ObjectLife& a, const ObjectLife& b) {
      return Place{a.session, a.address} < Place{b.session, b.address};
    });
    std::vector<ObjectLife> joined(objects_.begin(), begin);
    for (auto run = begin; run != objects_.end(); ++run) {
      const bool goes_on = joined.size() > from && joined.back().session == run->session &&
                           joined.back().call_site == run->call_site &&
                           joined.back().address + joined.back().bytes >= run->address;
      if (!goes_on) joined.push_back(*run);
      if (goes_on) joined.back().bytes = run->address + run->bytes - joined.back().address;
    }
    objects_ = std::move(joined);
  }

  static ObjectLife life_of(const JobEvent& event) {
    ObjectLife life;
    life.session = event.session;
    life.address = event.address;
    life.bytes = event.bytes;
    life.call_site = event.call_site;
    return life;
  }

  std::vector<ObjectLife>& objects_;
};

class Historian {
 public:
  Historian(const Recording& recording, History* into)
      : recording_(recording), into_(*into), living_(into->objects) {}

  void tell() {
    Elders(&into_.objects).find(recording_.events);
    for (std::uint32_t object = 0; object < into_.objects.size(); ++object) {
      living_.add(object);
      live_bytes_ += into_.objects[object].bytes;
    }
    into_.peak_bytes = live_bytes_;
    into_.peak_ns = recording_.begin_ns;
    into_.object_of_event.reserve(recording_.events.size());
    for (const JobEvent& event : recording_.events) into_.object_of_event.push_back(take(event));
    for (const auto& [place, since_ns] : away_) end_absence(place, since_ns, recording_.end_ns, true);
  }

 private:
  struct Wait {
    std::uint64_t since_ns = 0;
    bool was_read = false;
  };
  struct Step {
    std::uint64_t began_ns = 0, kind = 0;
    std::uint32_t born = 0;  // allocations
    std::size_t index = 0;   // into History::steps
  };

  // Of which object it tells.
  std::uint32_t take(const JobEvent& event) {
    const Place place{event.session, event.address};
    if (event.kind == EventKind::alloc) return give_birth(event);
    if (event.kind == EventKind::free) return end(place, event.time_ns);
    if (event.kind == EventKind::step) {
      begin_step(event);
      return no_object;
    }
    const std::uint32_t object = living_.of_run(place);
    take_run(event, place);
    return object;
  }

  void take_run(const JobEvent& event, const Place& place) {
    switch (event.kind) {
      case EventKind::fault:
        waiting_.try_emplace(place, Wait{event.time_ns, false});
        break;
      case EventKind::evict:
        waiting_.erase(place);  // it had been there all along: a first touch
        leave(place, event.time_ns);
        break;
      case EventKind::read_done:
        if (const auto wait = waiting_.find(place); wait != waiting_.end()) wait->second.was_read = true;
        break;
      case EventKind::restore:
      case EventKind::cancel:
        come_back(place, event.time_ns, event.kind == EventKind::cancel);
        break;
      default:
        break;
    }
  }

  // `address` and `bytes` are the period's kind and its length; of none where the program has left it.
  void begin_step(const JobEvent& event) {
    if (const auto before = running_.find(event.session); before != running_.end() && event.bytes != 0) {
      StepBegin& step = into_.steps[before->second.index];
      step.ns = event.time_ns - std::min(event.time_ns, step.time_ns);
    }
    if (event.bytes == 0) {
      running_.erase(event.session);
      return;
    }
    running_[event.session] = {event.time_ns, event.address, 0, into_.steps.size()};
    into_.steps.push_back({event.time_ns, event.session, event.address, event.bytes});
  }

  std::uint32_t give_birth(const JobEvent& event) {
    living_.take({event.session, event.address});  // its end was missed
    ObjectLife life;
    life.session = event.session;
    life.address = event.address;
    life.bytes = event.bytes;
    life.call_site = event.call_site;
    life.born_ns = event.time_ns;
    if (const auto step = running_.find(event.session); step != running_.end()) {
      life.place = step->second.born++;
      life.since_step_ns = event.time_ns - std::min(event.time_ns, step->second.began_ns);
      life.step_kind = step->second.kind;
    }
    into_.objects.push_back(life);
    const auto object = static_cast<std::uint32_t>(into_.objects.size() - 1);
    living_.add(object);
    live_bytes_ += event.bytes;
    if (live_bytes_ <= into_.peak_bytes) return object;
    into_.peak_bytes = live_bytes_;
    into_.peak_ns = event.time_ns;
    return object;
  }

  std::uint32_t end(const Place& place, std::uint64_t now_ns) {
    const std::uint32_t object = living_.take(place);
    if (object == no_object) return object;
    ObjectLife& life = into_.objects[object];
    life.died_ns = now_ns;
    live_bytes_ -= std::min(life.bytes, live_bytes_);
    const Place end{place.session, place.address + std::min(life.bytes, UINT64_MAX - place.address)};
    const auto first = away_.lower_bound(place), last = away_.lower_bound(end);
    for (auto run = first; run != last; ++run) end_absence(run->first, run->second, now_ns, false, object);
    away_.erase(first, last);
    waiting_.erase(waiting_.lower_bound(place), waiting_.lower_bound(end));
    return object;
  }

  void leave(const Place& place, std::uint64_t now_ns) {
    const std::uint32_t object = living_.of_run(place);
    if (object != no_object) ++into_.objects[object].evictions;
    away_.try_emplace(place, now_ns);
  }

  // A part of a run counts as all of it: single pages come one after the other.
  void come_back(const Place& place, std::uint64_t now_ns, bool was_leaving) {
    const std::uint32_t object = living_.of_run(place);
    if (const auto away = away_.find(place); away != away_.end()) {
      end_absence(place, away->second, now_ns, false, object);
      away_.erase(away);
      if (object != no_object) ++into_.objects[object].returns;
    }
    const auto wait = waiting_.find(place);
    if (wait == waiting_.end()) return;
    const std::uint64_t ns = now_ns - std::min(now_ns, wait->second.since_ns);
    const WaitCause cause = was_leaving             ? WaitCause::leaving
                            : wait->second.was_read ? WaitCause::pool
                                                    : WaitCause::put_back;
    into_.waits.push_back({wait->second.since_ns, ns, object, cause});
    if (object != no_object) count_wait(into_.objects[object], wait->second.since_ns, ns);
    waiting_.erase(wait);
  }

  static void count_wait(ObjectLife& life, std::uint64_t since_ns, std::uint64_t ns) {
    ++life.waits;
    life.wait_ns += ns;
    if (life.first_touch_ns == 0) life.first_touch_ns = since_ns;
    life.last_touch_ns = since_ns;
  }

  void end_absence(const Place& run, std::uint64_t from_ns, std::uint64_t to_ns, bool is_away_still) {
    end_absence(run, from_ns, to_ns, is_away_still, living_.of_run(run));
  }
  void end_absence(const Place& run, std::uint64_t from_ns, std::uint64_t to_ns, bool is_away_still,
                   std::uint32_t object) {
    if (object == no_object) return;
    ObjectLife& life = into_.objects[object];
    const std::uint64_t bytes = std::min<std::uint64_t>(life.bytes, run_bytes);
    const std::uint64_t ns = to_ns - std::min(from_ns, to_ns);
    life.away_byte_seconds += static_cast<double>(bytes) * static_cast<double>(ns) / 1e9;
    if (is_away_still) life.away_bytes += bytes;
    into_.absences.push_back({object, run.address, from_ns, to_ns});
  }

  const Recording& recording_;
  History& into_;
  Living living_;
  std::map<Place, std::uint64_t> away_;
  std::map<Place, Wait> waiting_;
  std::map<std::uint64_t, Step> running_;  // by session
  std::uint64_t live_bytes_ = 0;
};

}  // namespace

const char* name_of(WaitCause cause) {
  switch (cause) {
    case WaitCause::pool:
      return "pool";
    case WaitCause::put_back:
      return "put back";
    case WaitCause::leaving:
      return "leaving";
  }
  return "unknown";
}

History history_of(const Recording& recording) {
  History history;
  Historian(recording, &history).tell();
  return history;
}

}  // namespace terrace::cli
