// What the job tells the daemon of itself, ten times a second: counters and states in the shared segment
// (wire/segment.h). And at once when it holds no more than it may, after it held more: others wait for just
// that, as `terrace pause` does and whoever is to be granted the memory. The agent's, with the gate.
#pragma once

#include <cstdint>

#include "liballoc/agent/budget.h"
#include "liballoc/agent/daemon_link.h"
#include "liballoc/agent/pool/pool_tier.h"
#include "liballoc/base/availability.h"
#include "liballoc/heap/accounts.h"
#include "liballoc/paging/mover/mover.h"
#include "liballoc/paging/pager.h"

namespace terrace::liballoc {

class Publisher {
 public:
  constexpr Publisher(const Pager& pager, HeapAccounts& accounts, const Availability& availability,
                      const Mover& mover, const PoolTier& pool, const Budget& budget, DaemonLink& daemon)
      : pager_(pager),
        accounts_(accounts),
        availability_(availability),
        mover_(mover),
        pool_(pool),
        budget_(budget),
        daemon_(daemon) {}

  bool is_due(std::uint64_t now_ns) const {
    return now_ns >= next_ns_ || (told_of_more_ && !pager_.holds_too_much());
  }
  void publish(std::uint64_t now_ns);

 private:
  void publish_counters(wire::JobStats& out);
  void publish_states(wire::JobStats& out) const;

  const Pager& pager_;
  HeapAccounts& accounts_;
  const Availability& availability_;
  const Mover& mover_;
  const PoolTier& pool_;
  const Budget& budget_;
  DaemonLink& daemon_;
  std::uint64_t next_ns_ = 0;
  bool told_of_more_ = false;  // than the budget, when it published last
};

}  // namespace terrace::liballoc
