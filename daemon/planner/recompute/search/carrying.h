// What a link carries elsewhere and back beside the runs of a step, in times in which nothing waits.
//
//     runs       a   b   c   d   e   f   g            s is named by b, then by g; over d it lies elsewhere
//     link out           sssss
//     link in                        ssss             as late as it can, so that g finds it
//     in memory  ----------------         -------
//
// Each direction carries one content after the other: out in the order in which they may leave, each as early
// as it can; in by need, each as late as it can. So nobody ever waits, and a link without time left shows as
// contents that are away too late or not at all. That is how the simulated link works, but for what waits
// there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/step.h"

namespace terrace::planner::recompute {

using Runs = std::vector<std::uint32_t>;  // operations

struct Link {
  double out_ns_per_byte = 0, in_ns_per_byte = 0;
  double latency_ns = 0;  // of each transfer
  std::int64_t out_ns(std::uint64_t bytes) const { return takes_ns(bytes, out_ns_per_byte); }
  std::int64_t in_ns(std::uint64_t bytes) const { return takes_ns(bytes, in_ns_per_byte); }

 private:
  static constexpr double never_ns = 1e14;  // more than a day; the sum of many such is still a number
  std::int64_t takes_ns(std::uint64_t bytes, double ns_per_byte) const {
    return static_cast<std::int64_t>(
        std::min(latency_ns + static_cast<double>(bytes) * ns_per_byte, never_ns));
  }
};

// A content that leaves after the run that names it last at a position before `over`, and is back for the one
// that reads it next.
struct Carried {
  std::uint32_t storage = 0, over = 0;
  bool operator==(const Carried&) const = default;
};

// When that is, in runs.
struct Absence {
  std::uint32_t after = nothing;     // the run that names it last
  std::uint32_t needed = nothing;    // the one that reads it next; nothing: none, or it is made anew before
  std::uint32_t begin = 0, end = 0;  // it takes no memory at [begin, end); both equal: at none
};

// When runs begin, and where they stand in the step.
struct Timetable {
  std::vector<std::uint32_t> position;  // per run: the operation whose first run comes next, itself included
  std::vector<std::int64_t> start_ns;   // per run, and the end
};

// Looked at again for other runs, it takes no new memory. Not for several threads.
class Carrying {
 public:
  explicit Carrying(const Step& step) : step_(step), of_storage_(step.storages.size()) {}

  // First begin(), then note() whatever the runs name in their order, then schedule().
  void begin(const std::vector<Carried>& carried);
  void note(std::uint32_t storage, std::uint32_t run, std::uint32_t position, bool reads);
  void schedule(const Link& link, const Timetable& times);

  const std::vector<Carried>& carried() const { return carried_; }
  const std::vector<Absence>& absences() const { return absences_; }  // in the same order
  bool is_away(std::uint32_t storage, std::uint32_t run) const;

 private:
  const Step& step_;
  std::vector<Carried> carried_;
  std::vector<Absence> absences_;
  std::vector<std::vector<std::uint32_t>> of_storage_;  // indexes into carried_
  std::vector<std::uint32_t> order_;

  std::uint64_t bytes(std::uint32_t carried) const { return step_.storages[carried_[carried].storage].bytes; }
};

}  // namespace terrace::planner::recompute
