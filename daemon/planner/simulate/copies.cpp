// Clean copies: what came in is still where it came from, until it is written.
#include "daemon/planner/simulate/store.h"

namespace terrace::planner {

bool Store::clean_in(std::uint32_t tensor, std::uint32_t tier) const {
  const TensorState& s = states_[tensor];
  return (s.copied || s.place == Place::coming) && s.tier == tier;
}

void Store::forget_copy(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (!s.copied) return;
  room_.give(s.tier, s.stored);
  if (may_give_way(tensor)) room_.unspare(s.tier, s.stored);
  s.copied = false;
}

// Those that the current run names stay queued until it has ended.
void Store::settle() {
  std::erase_if(clean_, [this](std::uint32_t t) {
    const TensorState& s = states_[t];
    if (!s.asked_clean) return true;
    if (s.place != Place::here || s.pinned) return false;
    leave_to_copy(t);
    return true;
  });
}

void Store::leave_to_copy(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  recording_.copy(CopyUse::Kind::left_to_it, tensor, now_us());
  s.queued_out = s.asked_clean = s.copied = s.coded = false;
  s.place = Place::away;
  leaving_bytes_ -= bytes(tensor);
  room_.give(0, bytes(tensor));
}

void Store::let_copies_give_way(std::uint32_t tier, std::uint64_t bytes) {
  std::deque<Copy>& copies = copies_[tier];
  std::vector<Copy> kept;
  while (!copies.empty() && !room_.fits(tier, bytes)) {
    const Copy copy = copies.front();
    copies.pop_front();
    if (copy.number != copy_numbers_[copy.tensor] || !states_[copy.tensor].copied) continue;
    if (may_give_way(copy.tensor)) {
      recording_.copy(CopyUse::Kind::gave_way, copy.tensor, now_us());
      forget_copy(copy.tensor);
    } else {
      kept.push_back(copy);
    }
  }
  copies.insert(copies.begin(), kept.begin(), kept.end());
}

}  // namespace terrace::planner
