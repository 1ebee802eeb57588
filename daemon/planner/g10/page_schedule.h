// What moves when under G10's page-level rules: what any policy may tell simulate_g10() (g10.h).
//
// An entry takes effect once per iteration, when its operation begins, after the operation before it has
// ended and before its own pages are looked for; entries of one operation in their order. Pages that are in
// transfer already, or lie where the entry wants them, are left alone. Transfers queue behind each other
// (link.h). What the schedule leaves open happens on demand: a kernel's missing pages fault, and a page that
// enters a full GPU evicts a victim.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/machine.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

struct G10Machine;

enum class PageAction : std::uint8_t {
  fetch,          // into the GPU from where the pages lie; those that lie nowhere are allocated
  evict_to_host,  // to the SSD where the host is full
  evict_to_ssd,
  release  // forget the pages, wherever they lie; takes no time
};

struct PageScheduleEntry {
  std::uint32_t op = 0;  // number of operations: the begin of the next iteration
  PageAction action = PageAction::fetch;
  // Index into Trace::tensors; beyond them count the workspaces, in the order of their operations.
  std::uint32_t tensor = 0;
};

// Whom a page evicts that enters a full GPU.
enum class PageVictims : std::uint8_t {
  oldest,         // first in, first out: Base UVM and G10 (the artifact calls it LRU)
  not_soon_used,  // DeepUM+: prefetches spare what the next `deepum_ahead` kernels need; dead pages are
                  // dropped
};

struct PageSchedule {
  std::vector<PageScheduleEntry> entries;  // sorted by op
  PageVictims victims = PageVictims::oldest;
};

// The schedules of the paper's three policies. Base UVM, demand paging alone, is the empty one. Refused: what
// simulate_g10() refuses of the trace and the machine. Pure, any thread.
// G10 (MICRO'23, section 4, as its artifact computes it): planner.cpp. Quadratic, as there.
Result<PageSchedule> plan_g10_pages(const wire::Trace& trace, const G10Machine& machine);
// DeepUM+ (the paper's section 6.1): at every operation what the one `deepum_ahead` later needs.
Result<PageSchedule> plan_deepum_pages(const wire::Trace& trace, const G10Machine& machine);

// A tensor schedule of any policy under G10's rules. `tiers` is the machine that the schedule was made for: a
// tier whose route has one link is host memory, one behind several links the SSD. What the tensor simulator
// does by itself is added, as G10's own plan has it: pages are allocated ahead of a tensor's first operation
// and released after its last read. These rules know no reading of pages on their way out, so an eviction at
// an operation that names the tensor waits for the next one. Refused: recomputation, waits and codecs, which
// the rules do not know, and what simulate_g10() refuses.
Result<PageSchedule> page_schedule(const wire::Trace& trace, const Machine& tiers,
                                   const wire::Schedule& schedule, const G10Machine& machine);

}  // namespace terrace::planner
