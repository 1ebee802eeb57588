// Ticks that repeat each other, done at once; see link.h.
//
// With pages in one queue alone, all its ticks are alike until the run of victims changes its kind, a memory
// fills, or the queue ends. Base UVM on SENet154-1024 has 120 million ticks and nearly all are of this sort.
#include <algorithm>

#include "daemon/planner/g10/simulator/link.h"

namespace terrace::planner::g10 {
namespace {

constexpr std::uint32_t most_runs = 64;  // looked at ahead of time: what is not used is looked at again
constexpr std::uint64_t most_ticks = std::uint64_t{1} << 40U;

}  // namespace

// `none` where several queues wait or pages are to be evicted ahead of time.
Wait Link::only_queue() const {
  Wait found = Wait::none;
  for (std::size_t i = 1; i < wait_count; ++i) {
    const Wait wait = static_cast<Wait>(i);
    if (pages_.empty(wait)) continue;
    if (found != Wait::none || wait == Wait::evict_ssd || wait == Wait::evict_host) return Wait::none;
    found = wait;
  }
  return found;
}

// Pages that may go in before something can happen: the queue must not run empty, and the last page that the
// waiting kernel needs must arrive in a tick of its own.
std::uint64_t Link::skip_limit(Wait wait, std::uint64_t enough, bool waiting) const {
  std::uint64_t all = 0;
  std::uint64_t ahead = 0;
  bool before_needed = true;
  std::uint32_t left = most_runs;
  for (const std::uint32_t id : pages_.queue(wait)) {
    if (left-- == 0 || all > enough) break;
    const Run& run = pages_.run(id);
    all += run.pages;
    before_needed = before_needed && !pages_.needed(run.tensor);
    if (before_needed) ahead += run.pages;
  }
  const std::uint64_t limit = all == 0 ? 0 : std::min(all - 1, enough);
  const bool ends_wait = waiting && pages_.awaited() > 0;
  return ends_wait ? std::min(limit, ahead + pages_.awaited() - 1) : limit;
}

// Pages at the old end of the GPU's list that go to rest when they leave.
std::uint64_t Link::victims_at_rest(std::uint64_t enough) const {
  std::uint64_t pages = 0;
  std::uint32_t left = most_runs;
  for (std::uint32_t id = pages_.oldest(); id != no_run && pages < enough; id = pages_.run(id).newer) {
    if (left-- == 0 || pages_.needed(pages_.run(id).tensor)) break;
    pages += pages_.run(id).pages;
  }
  return pages;
}

std::uint64_t Link::skip_free(Wait wait, std::uint64_t rate, std::uint64_t ticks) {
  ticks = std::min(ticks, pages_.gpu_free() / rate);
  for (std::uint64_t left = ticks * rate; left > 0;) {
    const std::uint64_t pages = std::min<std::uint64_t>(left, pages_.run(pages_.front(wait)).pages);
    enter(wait, pages);
    left -= pages;
  }
  return ticks;
}

// Victims all go the same way: to the host while it has room (a page from there makes its own), else to the
// SSD.
std::uint64_t Link::skip_full(Wait wait, std::uint64_t ticks) {
  const bool swaps = wait == Wait::fault_host || wait == Wait::prefetch_host;
  const Place place = host_full() ? Place::ssd : Place::host;
  if (swaps && place == Place::ssd) return 0;
  std::uint64_t rate = std::min(entry_budget(wait, true), budget_.link);
  if (place == Place::ssd) rate = std::min(rate, budget_.ssd);
  if (place == Place::host && !swaps) ticks = std::min(ticks, pages_.host_free() / rate);
  if (ticks == 0) return 0;
  ticks = std::min(ticks, victims_at_rest(ticks * rate) / rate);
  for (std::uint64_t left = ticks * rate; left > 0;) {
    const std::uint64_t pages = std::min<std::uint64_t>(
        {left, pages_.run(pages_.oldest()).pages, pages_.run(pages_.front(wait)).pages});
    evict(pages_.oldest(), pages, place);
    enter(wait, pages);
    left -= pages;
  }
  return ticks;
}

std::uint64_t Link::skip(std::uint64_t most, bool waiting) {
  if (most < 2 || victims_ == PageVictims::not_soon_used) return 0;
  const Wait wait = only_queue();
  if (wait == Wait::none) return 0;
  spent_ = {};
  const std::uint64_t rate = entry_budget(wait, true);
  most = std::min(most, most_ticks);
  const std::uint64_t ticks = std::min(most, skip_limit(wait, most * rate, waiting) / rate);
  if (pages_.gpu_free() > 0) return pages_.gpu_free() < rate ? 0 : skip_free(wait, rate, ticks);
  return skip_full(wait, ticks);
}

}  // namespace terrace::planner::g10
