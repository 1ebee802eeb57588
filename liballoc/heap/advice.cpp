#include "liballoc/heap/advice.h"

namespace terrace::liballoc {

// Only whole runs inside the range: the neighbours in a shared run asked for nothing. False: there are none.
bool Advice::leave_whole_runs(Blocks::Runs* runs, const std::byte* begin, const std::byte* end) const {
  Pager& pager = guarded_.pager;
  if (pager.runs().heap().address(runs->first) < begin) ++runs->first;
  const bool to_block_end = end >= pager.blocks().end_of(runs->block) - (granule_bytes - 1);
  if (pager.runs().heap().address(runs->last) + run_bytes > end &&
      !(to_block_end && pager.run(runs->last).live == 1)) {
    if (runs->last == 0) return false;
    --runs->last;
  }
  return runs->first <= runs->last && runs->last != none;
}

int Advice::advise(const void* address, std::size_t bytes, terrace_advice advice) {
  Blocks::Runs runs = blocks_.runs_of(address, bytes);
  if (runs.block == 0) return EINVAL;
  if (!take_over_.ensure_paging()) return ENOTSUP;
  {
    const InsideGate gate(guarded_);
    const auto* const begin = static_cast<const std::byte*>(address);
    if (!leave_whole_runs(&runs, begin, begin + bytes)) return 0;
    guarded_.pager.advise(runs.first, runs.last, advice);
  }
  waker_.kick();
  return 0;
}

}  // namespace terrace::liballoc
