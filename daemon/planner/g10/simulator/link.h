// The link between the GPU, the host and the SSD: a batch of pages per tick.
//
// Order within a tick: evictions ahead of time, faults (SSD, host, allocations), prefetches (SSD, host),
// allocations ahead of time; first in, first out in each queue. A page that enters a full GPU evicts another,
// to the host while it has room, else to the SSD, within the budgets of the way out. Latencies are zero: a
// page handled in a tick has arrived in it.
#pragma once

#include <cstdint>

#include "daemon/planner/g10/simulator/pages.h"

namespace terrace::planner::g10 {

struct TickBudget {  // pages per tick
  std::uint64_t link = 0;
  std::uint64_t ssd = 0;
  std::uint64_t allocations = 0;
  std::uint64_t cycles = 0;  // length of a tick
};
TickBudget tick_budget(const G10Machine& machine);

class Link {
 public:
  Link(const Workload& workload, const G10Machine& machine, PageVictims victims);

  PageStore& pages() { return pages_; }
  const TickBudget& budget() const { return budget_; }
  G10Traffic take_traffic();

  // Called whenever a kernel begins or resumes: its tensors are the needed ones, victims are sought anew.
  void begin_kernel(std::uint32_t op);

  // One tick; `waiting` says that a kernel waits for its pages.
  void tick(bool waiting);
  bool moved() const { return spent_.in + spent_.out + spent_.allocated > 0; }  // in the last tick

  // Does as many of the next `most` ticks at once as surely repeat each other, maybe none; returns how many.
  std::uint64_t skip(std::uint64_t most, bool waiting);

 private:
  struct Spent {
    std::uint64_t in = 0;
    std::uint64_t in_ssd = 0;
    std::uint64_t out = 0;
    std::uint64_t out_ssd = 0;
    std::uint64_t allocated = 0;
  };
  struct Victim {
    std::uint32_t run = no_run;
    bool dropped = false;  // dead and given up without a transfer
  };
  enum class Stop : std::uint8_t { done, no_victim };

  bool host_full() const { return pages_.host_free() == 0; }
  bool may_evict() const;
  std::uint64_t entry_budget(Wait wait, bool fault) const;
  Victim victim(bool fault);
  Victim unprotected_victim();
  void advance_base(std::uint32_t run, std::uint64_t pages);
  void evict(std::uint32_t run, std::uint64_t pages, Place place);
  void evict_queue(Wait wait);
  Stop enter_queue(Wait wait, bool fault);
  std::uint64_t make_room(Wait wait, std::uint64_t pages, bool fault, bool& stuck);
  void enter(Wait wait, std::uint64_t pages);
  void unlock();
  Wait only_queue() const;
  std::uint64_t skip_free(Wait wait, std::uint64_t rate, std::uint64_t ticks);
  std::uint64_t skip_full(Wait wait, std::uint64_t ticks);
  std::uint64_t skip_limit(Wait wait, std::uint64_t enough, bool waiting) const;
  std::uint64_t victims_at_rest(std::uint64_t enough) const;

  const Workload& workload_;
  TickBudget budget_;
  PageVictims victims_;
  std::uint64_t page_bytes_;
  std::uint32_t ahead_;
  PageStore pages_;
  Spent spent_;
  G10Traffic traffic_;
  std::uint32_t op_ = 0;
  std::vector<std::uint32_t> window_;  // by tensor: round_ if one of the next kernels needs it (DeepUM+)
  std::uint32_t round_ = 0;
  std::uint32_t base_ = no_run;  // where DeepUM+ looks for unprotected victims
};

}  // namespace terrace::planner::g10
