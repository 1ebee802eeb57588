#include "daemon/planning/period_step.h"

#include <algorithm>
#include <string>

namespace terrace::daemon {
namespace {

using wire::PeriodObject;
using wire::PeriodView;

// A number for each interval, to which ranges of intervals add.
class RangeSums {
 public:
  explicit RangeSums(std::uint32_t intervals) : changes_(intervals + 1, 0) {}

  // From `begin` on so many intervals, over the end and on from 0 where they go beyond it.
  void add(std::uint32_t begin, std::uint32_t count, std::uint64_t value) {
    const auto intervals = static_cast<std::uint32_t>(changes_.size() - 1);
    const std::uint32_t before_end = std::min(count, intervals - begin);
    add_range(begin, begin + before_end, value);
    add_range(0, count - before_end, value);
  }
  std::vector<std::uint64_t> values() const {
    std::vector<std::uint64_t> sums(changes_.size() - 1);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum += changes_[i];
    return sums;
  }

 private:
  std::vector<std::uint64_t> changes_;  // modulo 2^64

  void add_range(std::uint32_t begin, std::uint32_t end, std::uint64_t value) {
    changes_[begin] += value;
    changes_[end] -= value;
  }
};

std::uint32_t distance(std::uint32_t from, std::uint32_t to, std::uint32_t events) {
  return to >= from ? to - from : to + events - from;
}

// In intervals, of one that does not persist.
std::uint32_t life_of(const PeriodObject& o, std::uint32_t events) {
  return o.death == wire::never ? events - o.birth : distance(o.birth, o.death, events);
}

bool may_move(const PeriodObject& o) { return o.uses > 0 && o.bytes > 0; }

// The event before which the fewest bytes live that live behind it, too, of what may move and does not
// persist; the first one of several.
std::uint32_t best_begin(const PeriodView& period) {
  const auto events = static_cast<std::uint32_t>(period.events.size());
  RangeSums living(events);
  for (const PeriodObject& o : period.objects) {
    if (o.birth == wire::persistent || !may_move(o)) continue;
    if (const std::uint32_t life = life_of(o, events); life > 1)
      living.add((o.birth + 1) % events, life - 1, o.bytes);
  }
  const std::vector<std::uint64_t> crossing = living.values();
  return static_cast<std::uint32_t>(std::min_element(crossing.begin(), crossing.end()) - crossing.begin());
}

class StepBuilder {
 public:
  explicit StepBuilder(const PeriodView& period)
      : period_(period), events_(static_cast<std::uint32_t>(period.events.size())), beside_(events_) {
    step_.begin = best_begin(period);
    step_.period_hash = period.header->period_hash;
    wire::Trace& trace = step_.trace;
    trace.name = "period";
    trace.source = "a job";
    trace.reads_known = false;
    trace.ops.resize(events_);
    for (std::uint32_t op = 0; op < events_; ++op) {
      const std::uint32_t interval = (op + step_.begin) % events_;
      trace.ops[op].name = "interval " + std::to_string(interval);
      trace.ops[op].time_us = static_cast<double>(period.events[interval].ns) / 1e3;
      trace.ops[op].recomputable = false;
    }
  }

  PeriodStep build() {
    for (std::uint32_t i = 0; i < period_.objects.size(); ++i) add(i);
    const std::vector<std::uint64_t> beside = beside_.values();
    for (std::uint32_t op = 0; op < events_; ++op) step_.trace.ops[op].workspace_bytes = beside[op];
    return std::move(step_);
  }

 private:
  const PeriodView& period_;
  std::uint32_t events_;
  RangeSums beside_;  // by operation: bytes of what is not moved
  PeriodStep step_;

  std::uint32_t op_of(std::uint32_t interval) const { return distance(step_.begin, interval, events_); }

  void add(std::uint32_t index) {
    const PeriodObject& o = period_.objects[index];
    if (o.birth == wire::persistent) {
      may_move(o) ? add_persistent(index) : void(step_.always_bytes += o.bytes);
      return;
    }
    const std::uint32_t born = op_of(o.birth), life = life_of(o, events_);
    const bool ends_in_step = born + life <= events_;
    if (!may_move(o) || !ends_in_step) return beside_.add(born, life, o.bytes);
    add_born(index, born, life);
  }

  std::uint32_t make_tensor(std::uint32_t index) {
    const PeriodObject& o = period_.objects[index];
    const auto tensor = static_cast<std::uint32_t>(step_.trace.tensors.size());
    wire::TraceTensor& made = step_.trace.tensors.emplace_back();
    made.id = index;
    made.bytes = o.bytes;
    made.persistent = o.birth == wire::persistent;
    step_.objects.push_back({index, o.bytes, o.birth, o.place});
    return tensor;
  }

  void name(std::uint32_t tensor, std::uint32_t op, bool is_written) {
    step_.trace.ops[op].inputs.push_back(tensor);
    if (is_written) step_.trace.ops[op].outputs.push_back(tensor);
  }

  void add_persistent(std::uint32_t index) {
    const std::uint32_t tensor = make_tensor(index);
    for (const wire::PeriodUse& use : period_.uses_of(period_.objects[index]))
      name(tensor, op_of(use.interval), (use.flags & wire::use_writes) != 0);
  }

  void add_born(std::uint32_t index, std::uint32_t born, std::uint32_t life) {
    const PeriodObject& o = period_.objects[index];
    const std::uint32_t tensor = make_tensor(index);
    step_.trace.ops[born].outputs.push_back(tensor);
    std::uint32_t last = born;
    for (const wire::PeriodUse& use : period_.uses_of(o)) {
      const std::uint32_t op = op_of(use.interval);
      if (op == born) continue;
      name(tensor, op, (use.flags & wire::use_writes) != 0);
      last = op;
    }
    beside_.add((last + 1) % events_, born + life - (last + 1), o.bytes);
  }
};

}  // namespace

PeriodStep step_of(const PeriodView& period) { return StepBuilder(period).build(); }

// An entry at the step's end and one at its beginning are before the same event; the first one comes first.
void turn_into_period(const PeriodStep& step, wire::Schedule* schedule) {
  const auto events = static_cast<std::uint32_t>(step.trace.ops.size());
  schedule->clock = wire::Clock::allocations;
  schedule->period = events;
  schedule->period_hash = step.period_hash;
  schedule->objects = step.objects;
  if (step.begin == 0) return;
  std::vector<wire::ScheduleEntry>& entries = schedule->entries;
  const auto second_part = std::find_if(entries.begin(), entries.end(), [&](const wire::ScheduleEntry& e) {
    return e.at >= events - step.begin;
  });
  for (wire::ScheduleEntry& e : entries) {
    const std::uint32_t until_due = e.by - e.at;
    e.at = (e.at + step.begin) % events;
    e.by = e.at + until_due;
  }
  std::rotate(entries.begin(), second_part, entries.end());
}

}  // namespace terrace::daemon
