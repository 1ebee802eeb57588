// One tick of the link; see link.h.
#include "daemon/planner/g10/simulator/link.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace terrace::planner::g10 {
namespace {

bool from_ssd(Wait wait) { return wait == Wait::fault_ssd || wait == Wait::prefetch_ssd; }
bool from_host(Wait wait) { return wait == Wait::fault_host || wait == Wait::prefetch_host; }
bool allocates(Wait wait) { return wait == Wait::fault_alloc || wait == Wait::prealloc; }

Wait fault_of(Place place) {
  if (place == Place::ssd) return Wait::fault_ssd;
  return place == Place::host ? Wait::fault_host : Wait::fault_alloc;
}

}  // namespace

TickBudget tick_budget(const G10Machine& machine) {
  const double hertz = machine.gpu_ghz * 1e9;
  const double link_bytes_per_cycle = machine.link_gb_per_second * 1e9 / hertz;
  TickBudget budget;
  budget.link = machine.pages_per_tick;
  budget.ssd = static_cast<std::uint64_t>(machine.pages_per_tick / machine.link_gb_per_second *
                                          machine.ssd_gb_per_second);
  const double bytes = static_cast<double>(machine.pages_per_tick) * machine.page_bytes;
  budget.cycles = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes / link_bytes_per_cycle));
  const double malloc_cycles = std::round(machine.malloc_us_per_byte * machine.page_bytes / 1e6 * hertz);
  budget.allocations = std::max<std::uint64_t>(
      1, budget.cycles / std::max<std::uint64_t>(1, static_cast<std::uint64_t>(malloc_cycles)));
  return budget;
}

Link::Link(const Workload& workload, const G10Machine& machine, PageVictims victims)
    : workload_(workload),
      budget_(tick_budget(machine)),
      victims_(victims),
      page_bytes_(machine.page_bytes),
      ahead_(machine.deepum_ahead),
      pages_(workload, machine),
      window_(workload.tensors.size(), 0) {}

G10Traffic Link::take_traffic() { return std::exchange(traffic_, {}); }

void Link::begin_kernel(std::uint32_t op) {
  op_ = op;
  pages_.set_needed(workload_.kernels[op].needs);
  if (victims_ != PageVictims::not_soon_used) return;
  ++round_;
  const std::size_t kernels = workload_.kernels.size();
  for (std::size_t ahead = 0; ahead < std::min<std::size_t>(ahead_, kernels); ++ahead) {
    for (const std::uint32_t tensor : workload_.kernels[(op + ahead) % kernels].needs) {
      window_[tensor] = round_;
    }
  }
  base_ = pages_.oldest();
  unprotected_victim();
}

bool Link::may_evict() const {
  return spent_.out < budget_.link && (!host_full() || spent_.out_ssd < budget_.ssd);
}

// Faults and allocations keep to the budget of allocations, prefetches do not.
std::uint64_t Link::entry_budget(Wait wait, bool fault) const {
  const std::uint64_t allocations = budget_.allocations - std::min(spent_.allocated, budget_.allocations);
  if (allocates(wait)) return allocations;
  std::uint64_t pages = budget_.link - spent_.in;
  if (from_ssd(wait)) pages = std::min(pages, budget_.ssd - spent_.in_ssd);
  return fault ? std::min(pages, allocations) : pages;
}

// DeepUM+ spares what the next kernels need, unless a fault asks. The search starts where the last one
// ended; once at the end of the list, nothing is found until the next kernel begins, though pages arrive.
Link::Victim Link::unprotected_victim() {
  while (base_ != no_run && window_[pages_.run(base_).tensor] == round_) base_ = pages_.run(base_).newer;
  return {base_, false};
}

Link::Victim Link::victim(bool fault) {
  if (victims_ != PageVictims::not_soon_used) return {pages_.oldest(), false};
  Victim found = fault ? Victim{pages_.oldest(), false} : unprotected_victim();
  if (found.run != no_run) found.dropped = !workload_.tensors[pages_.run(found.run).tensor].alive(op_);
  return found;
}

void Link::advance_base(std::uint32_t run, std::uint64_t pages) {
  if (run == base_ && pages == pages_.run(run).pages) base_ = pages_.run(run).newer;
}

// A page that the running kernel needs goes straight back into the queue of faults.
void Link::evict(std::uint32_t run, std::uint64_t pages, Place place) {
  const bool needed = pages_.needed(pages_.run(run).tensor);
  pages_.move(run, static_cast<std::uint32_t>(pages), place, needed ? fault_of(place) : Wait::none);
  if (place == Place::absent) return;
  spent_.out += pages;
  if (place == Place::ssd) spent_.out_ssd += pages;
  (place == Place::ssd ? traffic_.gpu_to_ssd : traffic_.gpu_to_host) += pages * page_bytes_;
}

void Link::evict_queue(Wait wait) {
  while (!pages_.empty(wait) && may_evict()) {
    const bool to_ssd = wait == Wait::evict_ssd || host_full();
    const std::uint64_t room = to_ssd ? budget_.ssd - spent_.out_ssd : pages_.host_free();
    const std::uint64_t pages =
        std::min<std::uint64_t>({pages_.run(pages_.front(wait)).pages, room, budget_.link - spent_.out});
    if (pages == 0) return;
    evict(pages_.front(wait), pages, to_ssd ? Place::ssd : Place::host);
  }
}

// Frees up to `pages` page frames of a full GPU by one run's eviction; returns how many, 0 if budgets are
// spent. A page that comes from the host leaves its frame there to the next victim.
std::uint64_t Link::make_room(Wait wait, std::uint64_t pages, bool fault, bool& stuck) {
  if (!may_evict()) return 0;
  const Victim found = victim(fault);
  stuck = found.run == no_run;
  if (stuck) return 0;
  pages = std::min<std::uint64_t>(pages, pages_.run(found.run).pages);
  Place place = Place::absent;
  if (!found.dropped) {
    place = host_full() ? Place::ssd : Place::host;
    pages = std::min(pages, budget_.link - spent_.out);
    if (place == Place::ssd) pages = std::min(pages, from_host(wait) ? 1 : budget_.ssd - spent_.out_ssd);
    if (place == Place::host) pages = from_host(wait) ? pages : std::min(pages, pages_.host_free());
  }
  // The page that enters follows the list's last one: taking all of the last run would lose the place.
  if (found.run == base_ && pages > 1 && pages_.run(base_).newer == no_run) {
    pages = std::min<std::uint64_t>(pages, std::max(pages_.run(base_).pages, 2U) - 1);
  }
  advance_base(found.run, pages);
  return evict(found.run, pages, place), pages;
}

void Link::enter(Wait wait, std::uint64_t pages) {
  pages_.move(pages_.front(wait), static_cast<std::uint32_t>(pages), Place::gpu, Wait::none);
  spent_.allocated += pages;
  if (allocates(wait)) return;
  spent_.in += pages;
  if (from_ssd(wait)) spent_.in_ssd += pages;
  (from_ssd(wait) ? traffic_.ssd_to_gpu : traffic_.host_to_gpu) += pages * page_bytes_;
}

Link::Stop Link::enter_queue(Wait wait, bool fault) {
  bool stuck = false;
  while (!pages_.empty(wait)) {
    const Run& front = pages_.run(pages_.front(wait));
    std::uint64_t pages = std::min<std::uint64_t>(front.pages, entry_budget(wait, fault));
    const bool asks = fault || pages_.needed(front.tensor);
    if (pages == 0) break;
    pages = pages_.gpu_free() > 0 ? std::min(pages, pages_.gpu_free()) : make_room(wait, pages, asks, stuck);
    if (pages == 0) break;
    enter(wait, pages);
  }
  return stuck ? Stop::no_victim : Stop::done;
}

// DeepUM+: a kernel that waits for prefetches which find no victim takes them as faults.
void Link::unlock() {
  enter_queue(Wait::prefetch_ssd, true);
  enter_queue(Wait::prefetch_host, true);
  enter_queue(Wait::prealloc, true);
}

void Link::tick(bool waiting) {
  spent_ = {};
  evict_queue(Wait::evict_ssd);
  evict_queue(Wait::evict_host);
  enter_queue(Wait::fault_ssd, true);
  enter_queue(Wait::fault_host, true);
  enter_queue(Wait::fault_alloc, true);
  if (enter_queue(Wait::prefetch_ssd, false) == Stop::done) enter_queue(Wait::prefetch_host, false);
  enter_queue(Wait::prealloc, false);
  if (victims_ != PageVictims::not_soon_used || !waiting || pages_.awaited() == 0) return;
  if (spent_.in + spent_.out == 0) unlock();
}

}  // namespace terrace::planner::g10
