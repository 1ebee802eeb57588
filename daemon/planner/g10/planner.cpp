// G10's own plan (section 4 of the paper, as its artifact computes it): which idle intervals to use, towards
// the host or the SSD, and when to fetch back.
//
// Greedy: the interval that relieves the largest area above the memory line (bytes × time) goes first, as
// long as some operation's residency exceeds the target. Long intervals use the SSD while its write bandwidth
// lasts, then the host; intervals that wrap around (weights) promise no bandwidth. At last the fetches move
// to earlier operations as far as memory allows.
#include <algorithm>
#include <utility>

#include "daemon/planner/g10/channels.h"
#include "daemon/planner/g10/intervals.h"
#include "daemon/planner/g10/page_schedule.h"

namespace terrace::planner {
namespace g10 {
namespace {

constexpr double binary_gb = 1024.0 * 1024 * 1024;
using Over = Direction::Over;

struct Times {  // of moving one tensor, in microseconds
  double out = 0;
  double back = 0;  // with the margin
  double both() const { return 2 * out + (back - out); }
};

class Planner {
 public:
  Planner(const Workload& workload, const G10Machine& machine);
  std::vector<PageScheduleEntry> plan();

 private:
  struct Key {
    double area = 0;
    double weight = 0;  // time × bytes
    std::uint32_t interval = 0;
  };

  std::vector<double> op_times() const;
  double rate(double gb_per_second) const { return gb_per_second * binary_gb / 1000000; }
  std::uint64_t bytes(const Interval& interval) const { return workload_.tensors[interval.tensor].bytes; }
  Times times(const Interval& interval, double latency_us, double gb_per_second) const;
  bool fits() const;
  bool fits(const Interval& interval) const;
  bool host_fits(std::uint64_t bytes) const;
  std::uint32_t op_at(double time, const Interval& interval) const;

  void place_births_and_deaths();
  void measure_pressure();
  double area(const Interval& interval) const;
  static bool better(const Key& left, const Key& right);
  void rank();
  void use_intervals();
  bool use(Interval& interval);
  void use_looped(Interval& interval, PageAction action, const Times& times);
  bool use_straight(Interval& interval, Over over);
  void occupy_host(const Interval& interval);
  void relieve(const Interval& interval, std::uint32_t first, std::uint32_t last);
  void advance_fetches();

  const Workload& workload_;
  const G10Machine& machine_;
  std::uint32_t ops_;
  std::vector<double> begin_us_;
  Direction in_;
  Direction out_;
  std::int64_t line_;                   // what counts as pressure
  std::int64_t target_;                 // what the plan aims at
  std::vector<std::int64_t> resident_;  // by operation, bytes on the GPU
  std::vector<std::int64_t> on_host_;
  std::vector<Interval> intervals_;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> straight_;      // planned intervals within the iteration
  std::vector<std::int64_t> pressed_;        // prefix sums: cycles of operations under pressure
  std::vector<std::int64_t> pressed_after_;  // the same, each operation with the length of the one before it
  std::vector<PageScheduleEntry> entries_;
};

Planner::Planner(const Workload& workload, const G10Machine& machine)
    : workload_(workload),
      machine_(machine),
      ops_(static_cast<std::uint32_t>(workload.kernels.size())),
      begin_us_(begin_times(workload, machine)),
      in_(op_times(), rate(machine.ssd_gb_per_second), rate(machine.link_gb_per_second)),
      out_(in_),
      line_(static_cast<std::int64_t>(machine.gpu_bytes)),
      target_(static_cast<std::int64_t>(static_cast<double>(line_) * 0.99)),
      on_host_(ops_, 0),
      intervals_(idle_intervals(workload)) {
  target_ = static_cast<std::int64_t>(machine.plan_loosening * static_cast<double>(target_));
  for (Interval& interval : intervals_) {
    const std::uint32_t end = interval.end + (interval.looped ? ops_ : 0);
    interval.time_us = begin_us_[end] - begin_us_[interval.start];
    keys_.push_back({0, interval.time_us * static_cast<double>(bytes(interval)),
                     static_cast<std::uint32_t>(keys_.size())});
  }
}

std::vector<double> Planner::op_times() const {
  std::vector<double> lengths(ops_);
  for (std::uint32_t op = 0; op < ops_; ++op) lengths[op] = begin_us_[op + 1] - begin_us_[op];
  return lengths;
}

Times Planner::times(const Interval& interval, double latency_us, double gb_per_second) const {
  Times times;
  times.out = latency_us + static_cast<double>(bytes(interval)) / rate(gb_per_second);
  times.back = times.out + machine_.plan_margin * times.out;
  return times;
}

bool Planner::fits() const {
  return std::all_of(resident_.begin(), resident_.end(),
                     [this](std::int64_t bytes) { return bytes <= target_; });
}

bool Planner::fits(const Interval& interval) const {
  const std::uint32_t end = interval.end + (interval.looped ? ops_ : 0);
  for (std::uint32_t op = interval.start; op < end; ++op) {
    if (resident_[op % ops_] > target_) return false;
  }
  return true;
}

bool Planner::host_fits(std::uint64_t bytes) const {
  const std::int64_t line = static_cast<std::int64_t>(machine_.host_bytes) - static_cast<std::int64_t>(bytes);
  return std::all_of(on_host_.begin(), on_host_.end(), [line](std::int64_t used) { return used <= line; });
}

// The operation of the interval that runs at a time; looped ones count on into the next iteration.
std::uint32_t Planner::op_at(double time, const Interval& interval) const {
  const std::uint32_t end = interval.end + (interval.looped ? ops_ : 0);
  const auto first = begin_us_.begin() + interval.start;
  const auto after = std::upper_bound(first, begin_us_.begin() + end, time);
  return after == first ? interval.start : static_cast<std::uint32_t>(after - begin_us_.begin() - 1);
}

// The estimate starts with every tensor resident always, the first one counted twice; it is corrected tensor
// by tensor and not beyond the first that makes everything fit.
void Planner::place_births_and_deaths() {
  std::int64_t all = static_cast<std::int64_t>(workload_.tensors[0].bytes);
  for (const Tensor& tensor : workload_.tensors) all += static_cast<std::int64_t>(tensor.bytes);
  resident_.assign(ops_, all);
  for (std::uint32_t i = 1; i < workload_.tensors.size() && !fits(); ++i) {
    const Tensor& tensor = workload_.tensors[i];
    if (tensor.global || tensor.death == 0) continue;
    const std::uint32_t alloc = allocation_op(tensor, begin_us_, machine_);
    entries_.push_back({alloc, PageAction::fetch, i});
    entries_.push_back({tensor.death, PageAction::release, i});
    const auto size = static_cast<std::int64_t>(tensor.bytes);
    for (std::uint32_t op = 0; op < alloc; ++op) resident_[op] -= size;
    for (std::uint32_t op = tensor.death; op < ops_; ++op) resident_[op] -= size;
  }
}

void Planner::measure_pressure() {
  pressed_.assign(ops_ + 1, 0);
  pressed_after_.assign(ops_ + 1, 0);
  for (std::uint32_t op = 0; op < ops_; ++op) {
    const bool pressed = resident_[op] > line_;
    pressed_[op + 1] = pressed_[op] + (pressed ? static_cast<std::int64_t>(workload_.kernels[op].cycles) : 0);
    const std::uint64_t before = op == 0 ? 0 : workload_.kernels[op - 1].cycles;
    pressed_after_[op + 1] = pressed_after_[op] + (pressed ? static_cast<std::int64_t>(before) : 0);
  }
}

// Bytes × cycles above the line. Looped intervals: past the end of the iteration the artifact takes each
// operation's pressure with the length of the one before, and the whole iteration, negative, for the first.
double Planner::area(const Interval& interval) const {
  const std::uint64_t half = bytes(interval) / 2;
  std::int64_t cycles = 0;
  if (interval.looped) {
    cycles = pressed_[ops_] - pressed_[interval.start];
    if (interval.end > 0) cycles += pressed_after_[interval.end];
    if (interval.end > 0 && resident_[0] > line_) cycles -= static_cast<std::int64_t>(workload_.ideal_cycles);
  } else {
    const std::uint32_t first = out_.end_of(Over::ssd, half, interval.start);
    const std::uint32_t last = in_.start_of(Over::ssd, half, interval.end);
    if (first < last) cycles = pressed_[last] - pressed_[first];
  }
  return static_cast<double>(bytes(interval)) * static_cast<double>(cycles);
}

bool Planner::better(const Key& left, const Key& right) {
  if (left.area == right.area && left.area != 0) return left.weight > right.weight;
  return left.area > right.area;
}

void Planner::rank() {
  measure_pressure();
  for (Key& key : keys_) key.area = intervals_[key.interval].settled ? 0 : area(intervals_[key.interval]);
  std::sort(keys_.begin(), keys_.end(), better);
}

void Planner::relieve(const Interval& interval, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t op = first; op < last; ++op)
    resident_[op % ops_] -= static_cast<std::int64_t>(bytes(interval));
}

void Planner::occupy_host(const Interval& interval) {
  const std::uint32_t end = interval.end + (interval.looped ? ops_ : 0);
  for (std::uint32_t op = interval.start; op < end; ++op) {
    on_host_[op % ops_] += static_cast<std::int64_t>(bytes(interval));
  }
}

// No bandwidth is promised: the way out takes its plain time, the way back starts with the margin ahead.
void Planner::use_looped(Interval& interval, PageAction action, const Times& times) {
  const std::uint32_t gone = op_at(begin_us_[interval.start] + times.out, interval);
  const std::uint32_t fetch = op_at(begin_us_[interval.end + ops_] - times.back, interval);
  if (fetch != interval.start) {
    entries_.push_back({interval.start, action, interval.tensor});
    entries_.push_back({fetch % ops_, PageAction::fetch, interval.tensor});
  }
  relieve(interval, gone + 1, fetch);
}

// False where the way back would have to start before the way out has ended.
bool Planner::use_straight(Interval& interval, Over over) {
  interval.fetch_at = in_.start_of(over, bytes(interval), interval.end);
  interval.evicted_by = out_.end_of(over, bytes(interval), interval.start);
  if (interval.fetch_at <= interval.evicted_by) return false;
  const PageAction action = over == Over::ssd ? PageAction::evict_to_ssd : PageAction::evict_to_host;
  entries_.push_back({interval.start, action, interval.tensor});
  straight_.push_back(static_cast<std::uint32_t>(&interval - intervals_.data()));
  in_.reserve(over, bytes(interval), interval.fetch_at);
  out_.reserve(over, bytes(interval), interval.start);
  relieve(interval, interval.evicted_by + 1, interval.fetch_at);
  return true;
}

// True where the interval is settled one way or the other.
bool Planner::use(Interval& interval) {
  const std::uint32_t length = interval.end + (interval.looped ? ops_ : 0) - interval.start;
  if (fits(interval) || length == 1) return true;
  const double host_us = machine_.system_latency_us;
  const Times ssd = times(interval, machine_.ssd_latency_us + host_us, machine_.ssd_gb_per_second);
  const Times host = times(interval, host_us, machine_.link_gb_per_second);
  if (interval.time_us > ssd.both()) {
    if (interval.looped) return use_looped(interval, PageAction::evict_to_ssd, ssd), true;
    const std::uint32_t ideal = op_at(begin_us_[interval.start] + ssd.out, interval);
    const bool to_host = out_.ssd_crowded(interval.start, ideal) && host_fits(bytes(interval));
    if (use_straight(interval, to_host ? Over::link : Over::ssd) && to_host) occupy_host(interval);
    return true;
  }
  if (interval.time_us <= host.both()) return false;
  if (!host_fits(bytes(interval))) return true;
  if (interval.looped) use_looped(interval, PageAction::evict_to_host, host);
  if (!interval.looped) use_straight(interval, Over::link);
  occupy_host(interval);
  return true;
}

// An interval too short for any move stays on top of the ranking: nothing after it is planned, as in the
// artifact.
void Planner::use_intervals() {
  for (std::size_t i = 0; i < intervals_.size() && !fits(); ++i) {
    rank();
    Interval& best = intervals_[keys_.front().interval];
    if (best.settled) return;
    best.settled = use(best);
    if (!best.settled && (keys_.size() == 1 || better(keys_[0], keys_[1]))) return;
  }
}

void Planner::advance_fetches() {
  std::sort(straight_.begin(), straight_.end(), [this](std::uint32_t left, std::uint32_t right) {
    return intervals_[left].fetch_at < intervals_[right].fetch_at;
  });
  for (const std::uint32_t i : straight_) {
    const Interval& interval = intervals_[i];
    std::uint32_t op = interval.fetch_at;
    while (op > interval.evicted_by + 1 && resident_[op - 1] < target_) --op;
    entries_.push_back({op, PageAction::fetch, interval.tensor});
    for (; op < interval.fetch_at; ++op) resident_[op] += static_cast<std::int64_t>(bytes(interval));
  }
}

// Entries of one operation keep no order of their own; the sort is the artifact's.
std::vector<PageScheduleEntry> Planner::plan() {
  place_births_and_deaths();
  use_intervals();
  advance_fetches();
  std::sort(entries_.begin(), entries_.end(),
            [](const PageScheduleEntry& left, const PageScheduleEntry& right) { return left.op < right.op; });
  return std::move(entries_);
}

}  // namespace
}  // namespace g10

Result<PageSchedule> plan_g10_pages(const wire::Trace& trace, const G10Machine& machine) {
  const auto workload = g10::make_workload(trace, machine, {});
  if (!workload) return refused<PageSchedule>(workload.error);
  return ok(PageSchedule{g10::Planner(*workload, machine).plan(), PageVictims::oldest});
}

}  // namespace terrace::planner
