#include "liballoc/gpu/offload/tensors/fetch_order.h"

#include <utility>

namespace terrace::liballoc::offload {

// The whole order of a step: the learned positions as learned, then the others from the last stored to the
// first.

void FetchOrder::fetch(std::size_t position) {
  if (is_fetched_.size() <= position) is_fetched_.resize(position + 1, false);
  if (is_fetched_[position]) return;
  is_fetched_[position] = true;
  fetched_.push_back(position);
}

void FetchOrder::end_step() {
  if (!fetched_.empty()) {
    order_ = std::move(fetched_);
    rank_.assign(stored_, none);
    for (std::size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = i;
  }
  fetched_.clear();
  is_fetched_.clear();
  stored_ = 0;
}

// The last position below `below` that was not learned.
std::size_t FetchOrder::last_unlearned(std::size_t below) const {
  while (below > 0)
    if (!learned(--below)) return below;
  return none;
}

std::size_t FetchOrder::first_unlearned(std::size_t from) const {
  for (; from < stored_; ++from)
    if (!learned(from)) return from;
  return none;
}

// The first position of this step with that rank or a later one.
std::size_t FetchOrder::learned_from(std::size_t rank) const {
  for (; rank < order_.size(); ++rank)
    if (order_[rank] < stored_) return order_[rank];
  return none;
}

// The last position of this step with a rank below that one.
std::size_t FetchOrder::learned_down_to(std::size_t rank) const {
  while (rank > 0)
    if (order_[--rank] < stored_) return order_[rank];
  return none;
}

std::size_t FetchOrder::first() const {
  const std::size_t position = learned_from(0);
  return position != none ? position : last_unlearned(stored_);
}

std::size_t FetchOrder::after(std::size_t position) const {
  if (!learned(position)) return last_unlearned(position);
  const std::size_t next = learned_from(rank_[position] + 1);
  return next != none ? next : last_unlearned(stored_);
}

std::size_t FetchOrder::last() const {
  const std::size_t position = first_unlearned(0);
  return position != none ? position : learned_down_to(order_.size());
}

std::size_t FetchOrder::before(std::size_t position) const {
  if (learned(position)) return learned_down_to(rank_[position]);
  const std::size_t next = first_unlearned(position + 1);
  return next != none ? next : learned_down_to(order_.size());
}

}  // namespace terrace::liballoc::offload
