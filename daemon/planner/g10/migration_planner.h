// What G10's planner does with one idle interval of a tensor (MICRO'23, section 4.3): where it goes, when it
// leaves and comes back, and what that promises of memory and bandwidth.
//
//   memory |      ____####____          ####: above the target; a tensor that rests there may leave.
//   target |_____/____________\___
//          |____/              \__      out: as soon as its last use ended, over what is left of the channels
//             |out|away...|in|          in:  as late as they allow, later moved ahead where memory allows
//
// A long interval goes to the SSD while its way out is not full, else to the host; a shorter one to the host,
// if it lasts longer than both movements. Intervals that wrap into the next step promise no bandwidth. Which
// interval goes next is the caller's choice. Every decision takes O(log n) beside the operations whose
// channels it fills. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/planner/g10/channels.h"
#include "daemon/planner/g10/intervals.h"
#include "daemon/planner/g10/page_schedule.h"
#include "daemon/planner/g10/pressure.h"
#include "daemon/planner/load_tree.h"

namespace terrace::planner::g10 {

struct Way {  // to the host or the SSD and back
  double out_bytes_per_us = 0;
  double in_bytes_per_us = 0;
  double out_latency_us = 0;
  double in_latency_us = 0;
};

// `as_artifact` keeps what the artifact's code does beside what the paper says: a way out over the SSD that
// ends within its first operation counts as full; a fetch moves ahead while memory is below the target
// without its own bytes; and the host's memory counts as taken by what then does not move.
struct MigrationRules {
  std::uint64_t target_bytes = 0;  // of GPU memory: what the plan aims at
  std::uint64_t host_bytes = 0;    // 0: there is no host memory to use
  std::uint64_t ssd_bytes = unlimited_bytes;
  Way host;             // over the link
  Way ssd;              // over the link and the SSD
  double margin = 0.5;  // of the way back, added to it before an interval is used
  bool as_artifact = false;
};

// How long each operation takes, from when they begin.
std::vector<double> op_times(const std::vector<double>& begin_us, std::size_t ops);

class MigrationPlanner {
 public:
  // When operations begin, of two steps and the end; bytes in memory at each operation if nothing moves.
  MigrationPlanner(std::vector<double> begin_us, const std::vector<std::uint64_t>& resident_bytes,
                   const MigrationRules& rules);

  // Whether no operation is above the target.
  bool fits() const { return resident_.peak_bytes() <= rules_.target_bytes; }

  struct Decision {
    bool settled = true;  // false: too short for any movement
    Relief relief;        // empty where nothing moves
  };
  Decision use(const Interval& interval);

  // The operations for which using an interval over the SSD would surely free memory, by half of its
  // transfers; empty (begin not before end) where they meet. Not for intervals that wrap.
  Relief sure_relief(const Interval& interval) const;

  // Moves fetches ahead as far as memory allows, and returns all entries in the order of the decisions, the
  // fetches of intervals within the step at last. The planner is done then.
  std::vector<PageScheduleEntry> finish();

 private:
  struct Times {  // of moving one tensor, in microseconds
    double out = 0;
    double back = 0;  // with the margin
    double both() const { return out + back; }
  };
  struct Fetch {
    std::uint32_t tensor = 0;
    std::uint64_t bytes = 0;
    std::uint32_t gone_by = 0;  // the operation in which the eviction is thought to end
    std::uint32_t at = 0;       // latest begin
  };
  using Over = Direction::Over;

  Times times(const Interval& interval, const Way& way) const;
  bool fits(const Interval& interval) const;
  static bool has_room(const LoadTree& used, std::uint64_t capacity_bytes, std::uint64_t bytes);
  std::uint32_t wrapped_end(const Interval& interval) const {
    return interval.end + (interval.looped ? ops_ : 0);
  }
  std::uint32_t op_at(double time_us, const Interval& interval) const;
  template <class Change>
  void in_step(std::uint32_t begin, std::uint32_t end, Change change) const;
  void occupy(LoadTree* tier, const Interval& interval);
  Relief use_looped(const Interval& interval, PageAction action, const Times& times);
  Relief use_within(const Interval& interval, Over over);
  Relief move(const Interval& interval, Over over, const Times& times);
  Relief relieve(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes);

  MigrationRules rules_;
  std::uint32_t ops_;
  std::vector<double> begin_us_;
  Direction in_;
  Direction out_;
  LoadTree resident_;  // by operation, bytes on the GPU
  LoadTree on_host_;
  LoadTree on_ssd_;
  std::vector<Fetch> fetches_;  // of intervals within the step
  std::vector<PageScheduleEntry> entries_;
};

}  // namespace terrace::planner::g10
