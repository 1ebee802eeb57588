#include "daemon/planner/recompute/dtr/eviction_pool.h"

namespace terrace::planner::recompute {

void EvictionPool::add(std::uint32_t storage) {
  if (places_[storage] != nothing) return;
  places_[storage] = static_cast<std::uint32_t>(members_.size());
  members_.push_back({storage, entries_++});
}

void EvictionPool::remove(std::uint32_t storage) {
  const std::uint32_t place = places_[storage];
  if (place == nothing) return;
  members_[place] = members_.back();
  places_[members_[place].storage] = place;
  members_.pop_back();
  places_[storage] = nothing;
}

std::uint32_t EvictionPool::choose(Heuristic* heuristic) const {
  Member best = members_.front();
  double least = heuristic->value(best.storage);
  for (std::size_t i = 1; i < members_.size(); ++i) {
    const Member& m = members_[i];
    const double value = heuristic->value(m.storage);
    const bool first_wins = value == 0;
    if (value > least || (value == least && (m.entry < best.entry) != first_wins)) continue;
    best = m;
    least = value;
  }
  return best.storage;
}

}  // namespace terrace::planner::recompute
