#include "tools/cli/timeline/step_tensors.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "liballoc/heap/space/block.h"
#include "tools/cli/timeline/median.h"

namespace terrace::cli {

using liballoc::run_bytes;
using wire::EventKind;
using wire::Trace;

namespace {

// What of the live memory a recording's events tell of.
class KnownBytes {
 public:
  explicit KnownBytes(const History& history) {
    for (const ObjectLife& life : history.objects) {
      sums_[life.born_ns] += life.bytes;
      if (life.died_ns != 0) sums_[life.died_ns] -= life.bytes;
    }
    std::uint64_t sum = 0;
    for (auto& [at, bytes] : sums_) bytes = sum += bytes;
  }

  std::uint64_t at(std::uint64_t time_ns) const {
    const auto after = sums_.upper_bound(time_ns);
    return after == sums_.begin() ? 0 : std::prev(after)->second;
  }

 private:
  // By time: first by how much they change, modulo 2^64, then the bytes.
  std::map<std::uint64_t, std::uint64_t> sums_;
};

// That which no event tells of, since it never moved; 0 where it cannot be told apart from other processes'.
std::uint64_t untold_bytes(const Recording& recording, const History& history) {
  for (const JobEvent& event : recording.events)
    if (event.session != recording.events.front().session) return 0;
  if (recording.samples.empty()) return 0;
  const KnownBytes known(history);
  std::vector<std::uint64_t> untold;
  for (const MemorySample& sample : recording.samples)
    untold.push_back(sample.live_bytes - std::min(known.at(sample.time_ns), sample.live_bytes));
  return median(std::move(untold));
}

class TensorMaker {
 public:
  TensorMaker(const History& history, const Roles& roles, const SeenStep& step, Trace* into,
              std::map<Role, std::uint32_t>* of)
      : history_(history), roles_(roles), step_(step), into_(*into), of_(*of) {}

  void make(std::uint64_t untold) {
    add_born();
    add_there_before();
    for (const auto& [born, carried] : same_)
      if (const auto found = of_.find(carried); found != of_.end()) of_[born] = found->second;
    if (untold >= run_bytes) add(untold, true);
  }

 private:
  std::uint32_t add(std::uint64_t bytes, bool persistent) {
    wire::TraceTensor tensor;
    tensor.id = into_.tensors.size() + 1;
    tensor.bytes = bytes;
    tensor.persistent = persistent;
    into_.tensors.push_back(tensor);
    return static_cast<std::uint32_t>(into_.tensors.size() - 1);
  }

  void add_born() {
    std::set<Role> ended, ends;  // so far in the step, and at all
    for (const Tick& tick : step_.ticks)
      if (!tick.is_birth) ends.insert(tick.role);
    for (const Tick& tick : step_.ticks) {
      if (!tick.is_birth) {
        ended.insert(tick.role);
        continue;
      }
      const bool outlives_step = ends.count(tick.role) == 0;
      const Role* before = outlives_step ? predecessor_of(tick.role, ended) : nullptr;
      if (before != nullptr)
        same_[tick.role] = *before;
      else
        of_[tick.role] = add(tick.bytes, outlives_step);
    }
  }

  // What an earlier step made at the same place and this one has already freed: one tensor, with a new
  // content.
  static const Role* predecessor_of(const Role& born, const std::set<Role>& ended) {
    const auto found = std::find_if(ended.begin(), ended.end(), [&](const Role& role) {
      return role.place == born.place && role.step_kind == born.step_kind && role.age > 0;
    });
    return born.place == no_place || found == ended.end() ? nullptr : &*found;
  }

  bool is_there_before(std::uint32_t object) const {
    const ObjectLife& life = history_.objects[object];
    if (life.session != step_.session || life.born_ns > step_.begin_ns) return false;
    if (life.died_ns != 0 && life.died_ns < step_.begin_ns) return false;
    const Role role = roles_.of(object, life.address, step_.number);
    return role.place == no_place || role.age > 0;
  }

  void add_there_before() {
    for (std::uint32_t object = 0; object < history_.objects.size(); ++object) {
      const ObjectLife& life = history_.objects[object];
      if (!is_there_before(object)) continue;
      // A large one that is known by its runs alone is several of the program's, so that each run is a
      // tensor.
      const std::uint64_t part = roles_.is_known_by_runs(object) ? run_bytes : life.bytes;
      for (std::uint64_t at = 0; at < life.bytes; at += part)
        of_[roles_.of(object, life.address + at, step_.number)] = add(std::min(part, life.bytes - at), true);
    }
  }

  const History& history_;
  const Roles& roles_;
  const SeenStep& step_;
  Trace& into_;
  std::map<Role, std::uint32_t>& of_;
  std::map<Role, Role> same_;  // as a tensor that was there before
};

}  // namespace

StepTensors::StepTensors(const Recording& recording, const History& history, const Roles& roles,
                         const LikeSteps& like, Trace* into)
    : history_(history) {
  const SeenStep& last = like.steps.back();
  TensorMaker(history, roles, last, into, &of_).make(untold_bytes(recording, history));
  for (std::size_t i = 0; i < recording.events.size(); ++i) {
    const JobEvent& event = recording.events[i];
    const std::uint32_t object = history.object_of_event[i];
    if (event.kind == EventKind::write_done && object != no_object &&
        history.objects[object].place == no_place)
      ++writes_[roles.of(object, event.address, last.number)];
  }
}

std::uint32_t StepTensors::of(const Role& role) const {
  const auto found = of_.find(role);
  return found == of_.end() ? no_object : found->second;
}

bool StepTensors::is_updated(const Role& role) const {
  const auto found = writes_.find(role);
  if (found == writes_.end()) return false;
  if (role.run != 0) return found->second > 1;
  return found->second > history_.objects[role.object].bytes / run_bytes + 1;  // runs that it may lie on
}

}  // namespace terrace::cli
