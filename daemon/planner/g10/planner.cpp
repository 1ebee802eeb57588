// G10's own plan (section 4 of the paper, as its artifact computes it): which idle intervals to use, towards
// the host or the SSD, and when to fetch back.
//
// Greedy: the interval that relieves the largest area above the memory line (bytes × time) goes first, as
// long as some operation's residency exceeds the target; migration_planner.h says what happens to it. The
// artifact sorts all intervals anew for each decision, and where areas are equal, or zero, its sort's order
// decides. To be the artifact's plan to the last entry this one sorts, too, which makes it quadratic;
// benefit_queue.h picks the same without.
#include <algorithm>
#include <utility>

#include "daemon/planner/g10/migration_planner.h"
#include "daemon/planner/g10/workload.h"

namespace terrace::planner {
namespace g10 {
namespace {

constexpr double binary_gb = 1024.0 * 1024 * 1024;  // what the artifact takes for a GB in its plan

MigrationRules rules_of(const G10Machine& machine) {
  const auto way = [](double gb_per_second, double latency_us) {
    const double rate = gb_per_second * binary_gb / 1000000;
    return Way{rate, rate, latency_us, latency_us};
  };
  const auto target = static_cast<std::int64_t>(static_cast<double>(machine.gpu_bytes) * 0.99);
  MigrationRules rules;
  rules.target_bytes = static_cast<std::uint64_t>(machine.plan_loosening * static_cast<double>(target));
  rules.host_bytes = machine.host_bytes;
  rules.host = way(machine.link_gb_per_second, machine.system_latency_us);
  rules.ssd = way(machine.ssd_gb_per_second, machine.ssd_latency_us + machine.system_latency_us);
  rules.margin = machine.plan_margin;
  rules.as_artifact = true;
  return rules;
}

// Bytes on the GPU by operation, and what allocates and releases them.
struct Lives {
  std::vector<std::uint64_t> resident_bytes;
  std::vector<PageScheduleEntry> entries;
};

// The estimate starts with every tensor resident always, the first one counted twice; it is corrected tensor
// by tensor and not beyond the first that makes everything fit.
Lives place_births_and_deaths(const Workload& workload, const G10Machine& machine,
                              const std::vector<double>& begin_us, std::uint64_t target_bytes) {
  const auto ops = static_cast<std::uint32_t>(workload.kernels.size());
  std::uint64_t all = workload.tensors[0].bytes;
  for (const Tensor& tensor : workload.tensors) all += tensor.bytes;
  LoadTree resident;
  resident.reset(std::vector<std::uint64_t>(ops, all));
  Lives lives;
  for (std::uint32_t i = 1; i < workload.tensors.size() && resident.peak_bytes() > target_bytes; ++i) {
    const Tensor& tensor = workload.tensors[i];
    if (tensor.global || tensor.death == 0) continue;
    const std::uint32_t alloc = allocation_op(tensor, begin_us, machine);
    lives.entries.push_back({alloc, PageAction::fetch, i});
    lives.entries.push_back({tensor.death, PageAction::release, i});
    resident.subtract(0, alloc, tensor.bytes);
    resident.subtract(tensor.death, ops, tensor.bytes);
  }
  for (std::uint32_t op = 0; op < ops; ++op) lives.resident_bytes.push_back(resident.peak(op, op + 1).bytes);
  return lives;
}

// The artifact's choice of the next interval.
class ArtifactOrder {
 public:
  ArtifactOrder(const Workload& workload, std::vector<Interval> intervals,
                const std::vector<std::uint64_t>& resident_bytes, std::uint64_t line_bytes);

  // Decides on intervals until all fits or no area is left.
  void run(MigrationPlanner* planner);

 private:
  struct Key {
    double area = 0;
    double weight = 0;  // time × bytes
    std::uint32_t interval = 0;
  };

  double area(const Interval& interval, const MigrationPlanner& planner) const;
  static bool better(const Key& left, const Key& right);
  void rank(const MigrationPlanner& planner);

  double ideal_cycles_;
  std::uint32_t ops_;
  std::vector<Interval> intervals_;
  std::vector<bool> settled_;  // by interval: planned, or found useless
  std::vector<Key> keys_;
  Pressure pressure_;
  Pressure pressure_after_;  // the same, each operation with the length of the one before it
};

std::vector<double> cycles_of(const Workload& workload) {
  std::vector<double> cycles;
  for (const Kernel& kernel : workload.kernels) cycles.push_back(static_cast<double>(kernel.cycles));
  return cycles;
}

std::vector<double> cycles_before(const Workload& workload) {
  std::vector<double> cycles = cycles_of(workload);
  cycles.insert(cycles.begin(), 0);
  cycles.pop_back();
  return cycles;
}

ArtifactOrder::ArtifactOrder(const Workload& workload, std::vector<Interval> intervals,
                             const std::vector<std::uint64_t>& resident_bytes, std::uint64_t line_bytes)
    : ideal_cycles_(static_cast<double>(workload.ideal_cycles)),
      ops_(static_cast<std::uint32_t>(workload.kernels.size())),
      intervals_(std::move(intervals)),
      settled_(intervals_.size(), false),
      pressure_(resident_bytes, cycles_of(workload), line_bytes),
      pressure_after_(resident_bytes, cycles_before(workload), line_bytes) {
  for (const Interval& interval : intervals_) {
    keys_.push_back({0, interval.time_us * static_cast<double>(interval.bytes),
                     static_cast<std::uint32_t>(keys_.size())});
  }
}

// Bytes × cycles above the line. Looped intervals: past the end of the iteration the artifact takes each
// operation's pressure with the length of the one before, and the whole iteration, negative, for the first.
double ArtifactOrder::area(const Interval& interval, const MigrationPlanner& planner) const {
  double cycles = 0;
  if (interval.looped) {
    cycles = pressure_.time_above(interval.start, ops_);
    if (interval.end > 0) cycles += pressure_after_.time_above(0, interval.end);
    if (interval.end > 0 && pressure_.above(0)) cycles -= ideal_cycles_;
  } else {
    const Relief sure = planner.sure_relief(interval);
    if (sure.begin < sure.end) cycles = pressure_.time_above(sure.begin, sure.end);
  }
  return static_cast<double>(interval.bytes) * cycles;
}

bool ArtifactOrder::better(const Key& left, const Key& right) {
  if (left.area == right.area && left.area != 0) return left.weight > right.weight;
  return left.area > right.area;
}

void ArtifactOrder::rank(const MigrationPlanner& planner) {
  for (Key& key : keys_) key.area = settled_[key.interval] ? 0 : area(intervals_[key.interval], planner);
  std::sort(keys_.begin(), keys_.end(), better);
}

// An interval too short for any move stays on top of the ranking: nothing after it is planned, as in the
// artifact.
void ArtifactOrder::run(MigrationPlanner* planner) {
  for (std::size_t i = 0; i < intervals_.size() && !planner->fits(); ++i) {
    rank(*planner);
    const std::uint32_t best = keys_.front().interval;
    if (settled_[best]) return;
    const MigrationPlanner::Decision decision = planner->use(intervals_[best]);
    settled_[best] = decision.settled;
    pressure_.relieve(decision.relief);
    pressure_after_.relieve(decision.relief);
    if (!decision.settled && (keys_.size() == 1 || better(keys_[0], keys_[1]))) return;
  }
}

// Entries of one operation keep no order of their own; the sort is the artifact's.
std::vector<PageScheduleEntry> plan(const Workload& workload, const G10Machine& machine) {
  const MigrationRules rules = rules_of(machine);
  const std::vector<double> begin_us = begin_times(workload, machine);
  Lives lives = place_births_and_deaths(workload, machine, begin_us, rules.target_bytes);
  MigrationPlanner planner(begin_us, lives.resident_bytes, rules);
  ArtifactOrder(workload, idle_intervals(workload, begin_us), lives.resident_bytes, machine.gpu_bytes)
      .run(&planner);
  std::vector<PageScheduleEntry> entries = std::move(lives.entries);
  const std::vector<PageScheduleEntry> moves = planner.finish();
  entries.insert(entries.end(), moves.begin(), moves.end());
  std::sort(entries.begin(), entries.end(),
            [](const PageScheduleEntry& left, const PageScheduleEntry& right) { return left.op < right.op; });
  return entries;
}

}  // namespace
}  // namespace g10

Result<PageSchedule> plan_g10_pages(const wire::Trace& trace, const G10Machine& machine) {
  const auto workload = g10::make_workload(trace, machine, {});
  if (!workload) return refused<PageSchedule>(workload.error);
  return ok(PageSchedule{g10::plan(*workload, machine), PageVictims::oldest});
}

}  // namespace terrace::planner
