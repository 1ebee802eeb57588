#include "daemon/planner/recompute/dtr/evicted_reach.h"

namespace terrace::planner::recompute {

EvictedReach::EvictedReach(const Residency& residency, Towards direction)
    : r_(residency),
      direction_(direction),
      costs_(residency.step.storages.size()),
      known_(residency.step.storages.size()),
      seen_(residency.step.storages.size()) {}

template <class Interior, class Frontier>
void EvictedReach::search(std::uint32_t from, Towards direction, Interior interior, Frontier frontier) {
  const std::uint32_t number = ++searches_;
  seen_[from] = number;
  open_.assign(1, from);
  const auto look = [&](std::uint32_t s) {
    if (seen_[s] == number || r_.made[s] == 0) return;
    seen_[s] = number;
    if (r_.present[s] != 0) return frontier(s);
    interior(s);
    open_.push_back(s);
  };
  while (!open_.empty()) {
    const std::uint32_t s = open_.back();
    open_.pop_back();
    direction == Towards::parents ? r_.parents(s, look) : r_.children(s, look);
  }
}

std::int64_t EvictedReach::cost_ns(std::uint32_t storage) {
  if (known_[storage] == 0) {
    std::int64_t sum = 0;
    search(
        storage, direction_, [&](std::uint32_t s) { sum += r_.cost_ns(s); }, [](std::uint32_t) {});
    costs_[storage] = sum;
    known_[storage] = 1;
  }
  return costs_[storage];
}

void EvictedReach::changed(std::uint32_t storage) {
  known_[storage] = 0;
  const Towards back = direction_ == Towards::parents ? Towards::children : Towards::parents;
  search(
      storage, back, [](std::uint32_t) {}, [this](std::uint32_t s) { known_[s] = 0; });
}

}  // namespace terrace::planner::recompute
