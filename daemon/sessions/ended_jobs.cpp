// See ended_jobs.h.
#include "daemon/sessions/ended_jobs.h"

#include <algorithm>
#include <iterator>

namespace terrace::daemon {
namespace {

// How a counter of one process becomes one of its job.
enum class Sum { add, largest };

Sum sum_of(wire::Stat stat) {
  const bool is_peak = stat == wire::Stat::heap_peak_bytes || stat == wire::Stat::resident_peak_bytes;
  return is_peak || !wire::is_counter(stat) ? Sum::largest : Sum::add;
}

// What a process holds, as opposed to what it did: nothing, once it has ended.
constexpr wire::Stat holdings[] = {wire::Stat::heap_live_bytes, wire::Stat::resident_bytes,
                                   wire::Stat::recycled_bytes,  wire::Stat::staging_bytes,
                                   wire::Stat::stored_bytes,    wire::Stat::budget_bytes,
                                   wire::Stat::pool_used_bytes};
// The speeds of tiers are of those who move something.
constexpr bool ends_with_process(wire::Stat stat) {
  return wire::is_speed(stat) ||
         std::find(std::begin(holdings), std::end(holdings), stat) != std::end(holdings);
}

}  // namespace

void add_counters(const Counters& more, Counters* sum) {
  for (std::size_t i = 0; i < wire::stat_count; ++i) {
    const bool largest = sum_of(static_cast<wire::Stat>(i)) == Sum::largest;
    (*sum)[i] = largest ? std::max((*sum)[i], more[i]) : (*sum)[i] + more[i];
  }
}

void EndedJobs::add(const Session& session, std::uint64_t budget_bytes, std::uint64_t now_ns) {
  if (session.is_gpu_heap()) return;
  EndedJob& ended = jobs_[session.job()];
  Counters did = session.counters();
  for (std::size_t i = 0; i < wire::stat_count; ++i)
    if (ends_with_process(static_cast<wire::Stat>(i))) did[i] = 0;
  add_counters(did, &ended.totals);
  if (!session.is_engine()) ++ended.processes;
  ended.budget_bytes = budget_bytes;
  ended.ended_ns = now_ns;
  if (jobs_.size() <= most_) return;
  jobs_.erase(std::min_element(jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
    return a.second.ended_ns < b.second.ended_ns;
  }));
}

}  // namespace terrace::daemon
