// The order of decisions; see benefit_queue.h.
#include "daemon/planner/g10/benefit_queue.h"

#include <algorithm>

namespace terrace::planner::g10 {

bool BenefitQueue::Key::operator<(const Key& other) const {
  if (area != other.area) return area < other.area;
  if (weight != other.weight) return weight < other.weight;
  return interval > other.interval;
}

BenefitQueue::BenefitQueue(const std::vector<Interval>& intervals, const MigrationPlanner& planner,
                           const Pressure& pressure)
    : intervals_(intervals), planner_(planner), pressure_(pressure) {
  std::vector<Key> keys;
  for (std::uint32_t i = 0; i < intervals.size(); ++i) {
    const double value = area(i);
    if (value > 0) keys.push_back({value, intervals[i].time_us * static_cast<double>(intervals[i].bytes), i});
  }
  queue_ = std::priority_queue<Key>(std::less<Key>(), std::move(keys));
}

double BenefitQueue::area(std::uint32_t i) const {
  const Interval& interval = intervals_[i];
  double time = 0;
  if (interval.looped) {
    time = pressure_.time_above(interval.start, pressure_.ops()) + pressure_.time_above(0, interval.end);
  } else {
    const Relief sure = planner_.sure_relief(interval);
    if (sure.begin < sure.end) time = pressure_.time_above(sure.begin, sure.end);
  }
  return static_cast<double>(interval.bytes) * time;
}

std::optional<std::uint32_t> BenefitQueue::take_best() {
  looked_at_.clear();
  while (!queue_.empty() && looked_at_.size() < most_looks) {
    Key top = queue_.top();
    if (!looked_at_.empty() && top < looked_at_.front()) break;  // no old value exceeds the best new one
    queue_.pop();
    top.area = area(top.interval);
    ++looks_;
    if (top.area <= 0) continue;
    // The best look stands first.
    looked_at_.push_back(top);
    if (looked_at_.front() < looked_at_.back()) std::swap(looked_at_.front(), looked_at_.back());
  }
  if (looked_at_.empty()) return std::nullopt;
  for (std::size_t i = 1; i < looked_at_.size(); ++i) queue_.push(looked_at_[i]);
  return looked_at_.front().interval;
}

std::vector<PageScheduleEntry> migrate_by_benefit(const std::vector<Interval>& intervals,
                                                  const std::vector<std::uint64_t>& resident_bytes,
                                                  const std::vector<double>& begin_us,
                                                  const MigrationRules& rules) {
  MigrationPlanner planner(begin_us, resident_bytes, rules);
  Pressure pressure(resident_bytes, op_times(begin_us, resident_bytes.size()), rules.target_bytes);
  BenefitQueue queue(intervals, planner, pressure);
  while (!planner.fits()) {
    const std::optional<std::uint32_t> best = queue.take_best();
    if (!best) break;
    pressure.relieve(planner.use(intervals[*best]).relief);
  }
  return planner.finish();
}

}  // namespace terrace::planner::g10
