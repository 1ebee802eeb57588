// What the schedule takes out: hands the runs of the entries that are due to whoever evicts, in the order of
// the executor's lane.
//
// A run is offered once for each entry. One that cannot leave then (a write of it has not ended, it is
// pinned, the kernel refuses it) stays for this time. What has left is Placement's and Transfers', as after
// any eviction: a run whose content the tier has leaves without a write. Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/planned/course.h"

namespace terrace::liballoc {

class PlannedLeaves {
 public:
  constexpr PlannedLeaves(const PolicyParts& parts, const Course& course) : parts_(parts), course_(course) {}

  // There are entries of which next() may know a run.
  bool are_due() const;
  // The run that leaves next, or none any more.
  std::uint32_t next();
  // The object ends.
  void forget(std::uint32_t object);
  // The schedule is not followed any more. While it is still mapped.
  void stop();

 private:
  static constexpr std::uint32_t lane = wire::Executor::lane(0, wire::Way::out);
  bool begin_next();
  bool may_leave(std::uint32_t n) const;

  const PolicyParts& parts_;
  const Course& course_;
  std::uint32_t entry_ = none;  // whose runs are being offered
  std::uint32_t block_ = 0;
  RunSpan runs_;  // still to be offered
};

}  // namespace terrace::liballoc
