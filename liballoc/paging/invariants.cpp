// Pager::check_invariants(): the run table counted anew.
#include <cstdlib>

#include "liballoc/base/message.h"
#include "liballoc/paging/pager.h"

namespace terrace::liballoc {
namespace {

bool has_frame(const Run& r) {
  return r.state == RunState::staged || r.state == RunState::cached || r.state == RunState::writing ||
         r.state == RunState::reading;
}

void check_run(const RunTable& runs, std::uint32_t n) {
  const Run& r = runs[n];
  const Pages& p = runs.pages(n);
  if (has_frame(r) && r.frame == none) std::abort();
  const bool is_listed = r.list == runs.list_of(r);
  const bool agrees = is_listed && (p.in_place & p.in_frame).is_empty() &&
                      (has_frame(r) || p.in_frame.is_empty()) &&
                      (r.state != RunState::resident || !p.in_place.is_empty()) &&
                      (p.stored.is_empty() || r.has_slot || r.in_flight) &&
                      (r.state != RunState::stored || (p.in_place.is_empty() && !p.stored.is_empty()));
  if (agrees) return;
  Message(Severity::error) << "pager invariant broken: run " << std::uint64_t{n} << " in state "
                           << static_cast<std::uint64_t>(r.state)
                           << (is_listed ? " has " : ", on another state's list, has ")
                           << std::uint64_t{p.in_place.count()} << " pages in place, "
                           << std::uint64_t{p.in_frame.count()} << " in a frame, "
                           << std::uint64_t{p.stored.count()} << " stored";
  std::abort();
}

}  // namespace

void Pager::check_invariants() const {
  if (!is_paging()) return;
  std::uint64_t pages = std::uint64_t{staging_.free_frames()} * pages_per_run;
  std::uint32_t frames = 0;
  std::uint32_t data = 0;
  for (std::uint32_t n = 0; n < runs_.top(); ++n) {
    check_run(runs_, n);
    const Run& r = runs_[n];
    data += RunTable::has_data(r) ? 1 : 0;
    pages += runs_.pages(n).in_place.count();
    if (!has_frame(r)) continue;
    ++frames;
    pages += staging_.memory_of(r.frame);
  }
  for (const TierOperation& op : operations_.all()) {
    if (!op.busy || !op.owns_frame) continue;
    ++frames;
    pages += staging_.memory_of(op.frame);
  }
  if (frames == frames_.used() && pages == budget_.backed_pages() && data == runs_.data_runs()) return;
  Message(Severity::error) << "pager invariant broken: frames " << std::uint64_t{frames} << "/"
                           << std::uint64_t{frames_.used()} << ", free "
                           << std::uint64_t{staging_.free_frames()} << ", pages " << pages << "/"
                           << budget_.backed_pages() << ", data " << std::uint64_t{data} << "/"
                           << std::uint64_t{runs_.data_runs()};
  std::abort();
}

}  // namespace terrace::liballoc
