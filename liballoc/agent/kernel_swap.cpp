#include "liballoc/agent/kernel_swap.h"

#include <algorithm>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

// What may be swapped beyond the heap itself before the next look.
constexpr std::uint64_t least_room = 1ULL << 30;
constexpr std::uint64_t small_process = 64ULL << 20;

}  // namespace

void KernelSwap::open(const char* cgroup) {
  if (budget_.follows_limit()) swap_.open(cgroup);
}

void KernelSwap::close() { swap_.close(); }

void KernelSwap::look(std::uint64_t now_ns) {
  if (!swap_.is_open() || pager_.standing().mode != Pager::Mode::paging || !trials_.is_due(now_ns)) return;
  const terrace_statistics& counts = pager_.accounts().counts;
  const bool was_kernels = trials_.is_kernels();
  if (was_kernels) {
    pager_.kernel_turn().count(now_ns - counted_ns_);
    counted_ns_ = now_ns;
  }
  const bool is_kernels = trials_.look({.now_ns = now_ns,
                                        .program_ns = program_ns(),
                                        .waited_ns = pager_.accounts().waited_ns(),
                                        .faults = counts.faults,
                                        .evicted_bytes = counts.evicted_bytes,
                                        .away_bytes = away_bytes(),
                                        .may_swap = may_swap()});
  if (is_kernels != was_kernels) is_kernels ? begin(now_ns) : end(now_ns);
  if (!trials_.is_kept() || told_) return;
  told_ = true;
  Message(Severity::warning)
      << "little of what leaves and comes back is used before it leaves again; the "
         "kernel's swap keeps the job under its limit from here on, as the job gets on faster so";
}

// All of the heap may have to be swapped, and what the program allocates until the next look. What the kernel
// writes is counted by nobody, so that a job whose writes are limited is never left to it.
bool KernelSwap::may_swap() const {
  const std::uint64_t limit = budget_.cgroup_limit_bytes();
  const bool limit_binds = budget_.granted_bytes() >= limit / 8 * 7;
  if (!limit_binds || pager_.standing().is_locked || pager_.extents().are_writes_leased() || !is_alone())
    return false;
  const std::uint64_t to_come = pager_.standing().kernel_swaps ? away_bytes() : data_bytes();
  return swap_.free_bytes() >= to_come + std::max(least_room, limit / 4);
}

// Others that follow the limit, as ranks of one job do, would find it reached whatever they do. A launcher, a
// daemon or a shell is not meant.
bool KernelSwap::is_alone() const {
  const std::uint64_t kept = budget_.cgroup_kept_bytes();
  const std::uint64_t others = kept - std::min(kept, swap_.resident_bytes());
  return others <= std::max(kept / 4, small_process);
}

std::uint64_t KernelSwap::data_bytes() const { return std::uint64_t{pager_.runs().data_runs()} * run_bytes; }

std::uint64_t KernelSwap::away_bytes() const {
  return data_bytes() - std::min(data_bytes(), pager_.budget().backed_bytes());
}

std::uint64_t KernelSwap::program_ns() const {
  const std::uint64_t all = os::user_ns(RUSAGE_SELF);
  const std::uint64_t ours = os::user_ns(RUSAGE_THREAD) + workers_.user_ns() + poller_.user_ns();
  return all - std::min(all, ours);
}

void KernelSwap::begin(std::uint64_t now_ns) {
  counted_ns_ = now_ns;
  budget_.watch_swapped(swap_);
  pager_.kernel_turn().begin();
}

void KernelSwap::end(std::uint64_t now_ns) {
  pager_.kernel_turn().end();
  budget_.count_swapped_from(now_ns);
}

}  // namespace terrace::liballoc
