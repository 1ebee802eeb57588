#include "daemon/planner/recompute/search/carrying.h"

#include <algorithm>

namespace terrace::planner::recompute {

void Carrying::begin(const std::vector<Carried>& carried) {
  for (const Carried& c : carried_) of_storage_[c.storage].clear();
  carried_ = carried;
  for (std::uint32_t i = 0; i < carried_.size(); ++i) of_storage_[carried_[i].storage].push_back(i);
  absences_.assign(carried_.size(), {});
}

void Carrying::note(std::uint32_t storage, std::uint32_t run, std::uint32_t position, bool reads) {
  for (const std::uint32_t i : of_storage_[storage]) {
    Absence& a = absences_[i];
    if (position < carried_[i].over) {
      a.after = run;
    } else if (reads && a.needed == nothing) {
      a.needed = run;
    } else if (a.needed == nothing) {  // made anew: what was carried has no use
      a.after = nothing;
    }
  }
}

void Carrying::schedule(const Link& link, const Timetable& times) {
  order_.clear();
  for (std::uint32_t i = 0; i < carried_.size(); ++i)
    if (absences_[i].after != nothing && absences_[i].needed != nothing) order_.push_back(i);
  const auto first_from = [&](std::int64_t ns) {  // the first run that begins no earlier
    const auto at = std::lower_bound(times.start_ns.begin(), times.start_ns.end(), ns);
    return static_cast<std::uint32_t>(at - times.start_ns.begin());
  };
  std::sort(order_.begin(), order_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return absences_[a].after < absences_[b].after; });
  std::int64_t free_ns = 0;
  for (const std::uint32_t i : order_) {
    free_ns = std::max(free_ns, times.start_ns[absences_[i].after + 1]) + link.out_ns(bytes(i));
    absences_[i].begin = first_from(free_ns);
  }
  std::sort(order_.begin(), order_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return absences_[a].needed > absences_[b].needed; });
  free_ns = times.start_ns.back();
  for (const std::uint32_t i : order_) {
    Absence& a = absences_[i];
    free_ns = std::min(free_ns, times.start_ns[a.needed]) - link.in_ns(bytes(i));
    // The run under way as it begins to come back has no room for it already.
    const std::uint32_t next = first_from(std::max<std::int64_t>(free_ns, 0));
    a.end = next > 0 && times.start_ns[next] > free_ns ? next - 1 : next;
    a.begin = std::min(a.begin, a.end);
  }
}

bool Carrying::is_away(std::uint32_t storage, std::uint32_t run) const {
  const std::vector<std::uint32_t>& all = of_storage_[storage];
  return std::any_of(all.begin(), all.end(),
                     [&](std::uint32_t i) { return absences_[i].begin <= run && run < absences_[i].end; });
}

}  // namespace terrace::planner::recompute
