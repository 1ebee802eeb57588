// Which idle interval relieves most: bytes × time above the target, as decisions lower it (G10's greedy
// order, MICRO'23, section 4.3), without ranking all intervals anew for each decision.
//
// Relief only falls: residency falls and channels fill. So an old value is an upper bound; the top of the
// queue is looked at again, and goes first if it is still the top. Where many intervals fall together (layers
// of one size), that could look at all of them for each decision: after 64 looks the best of those goes
// first, which is at most what the 64 lost since their last look behind the best of all. O(log n) a look.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "daemon/planner/g10/migration_planner.h"
#include "daemon/planner/g10/pressure.h"

namespace terrace::planner::g10 {

class BenefitQueue {
 public:
  static constexpr std::uint32_t most_looks = 64;

  // All three must outlive the queue; the planner and the pressure change with every decision.
  BenefitQueue(const std::vector<Interval>& intervals, const MigrationPlanner& planner,
               const Pressure& pressure);

  // The next interval to decide on, which then is out of the queue; nothing where none relieves anything.
  std::optional<std::uint32_t> take_best();
  std::uint64_t looks() const { return looks_; }  // so far, beyond the first at each interval

 private:
  struct Key {
    double area = 0;
    double weight = 0;  // time × bytes: decides between equals
    std::uint32_t interval = 0;
    bool operator<(const Key& other) const;
  };

  double area(std::uint32_t interval) const;

  const std::vector<Interval>& intervals_;
  const MigrationPlanner& planner_;
  const Pressure& pressure_;
  std::priority_queue<Key> queue_;
  std::vector<Key> looked_at_;
  std::uint64_t looks_ = 0;
};

// Decides on intervals by relief until everything fits or none relieves; returns the planner's entries.
// `resident_bytes` and `op_us` by operation, `begin_us` of two steps and their end; O(n log n) for n
// operations and intervals but for channels, where each operation fills once.
std::vector<PageScheduleEntry> migrate_by_benefit(const std::vector<Interval>& intervals,
                                                  const std::vector<std::uint64_t>& resident_bytes,
                                                  const std::vector<double>& begin_us,
                                                  const MigrationRules& rules);

}  // namespace terrace::planner::g10
