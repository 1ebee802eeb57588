#include "daemon/planner/simulate/store/copies.h"

namespace terrace::planner {

Copies::Copies(const wire::Trace& trace, std::vector<TensorState>& states, Room& room, Recording& recording)
    : trace_(trace),
      states_(states),
      room_(room),
      recording_(recording),
      copies_(room.used().size()),
      numbers_(trace.tensors.size(), 0) {}

void Copies::arrived(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  s.copied = true;
  if (!s.asked_clean) room_.spare(s.tier, s.stored);
  numbers_[tensor] = ++last_number_;
  copies_[s.tier].push_back({tensor, last_number_});
}

void Copies::ask(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (s.copied) room_.unspare(s.tier, s.stored);
  s.asked_clean = true;
  s.asked_codec = no_codec;
  asked_.push_back(tensor);
}

void Copies::call_off(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (s.asked_clean && s.copied) room_.spare(s.tier, s.stored);
  s.asked_clean = false;
}

bool Copies::clean_in(std::uint32_t tensor, std::uint32_t tier) const {
  const TensorState& s = states_[tensor];
  return (s.copied || s.place == Place::coming) && s.tier == tier && !room_.is_inside(tier);
}

void Copies::forget(std::uint32_t tensor) {
  TensorState& s = states_[tensor];
  if (!s.copied) return;
  room_.give(s.tier, s.stored, tensor);
  if (may_give_way(tensor)) room_.unspare(s.tier, s.stored);
  s.copied = false;
}

void Copies::replaced(std::uint32_t tensor, double now_us) {
  if (states_[tensor].copied) recording_.copy(CopyUse::Kind::gave_way, tensor, now_us);
  forget(tensor);
}

// Those that the current run names stay queued until it has ended.
void Copies::settle(double now_us) {
  std::erase_if(asked_, [this, now_us](std::uint32_t t) {
    const TensorState& s = states_[t];
    if (!s.asked_clean) return true;
    if (s.place != Place::here || s.pinned) return false;
    leave_to_copy(t, now_us);
    return true;
  });
}

void Copies::leave_to_copy(std::uint32_t tensor, double now_us) {
  TensorState& s = states_[tensor];
  recording_.copy(CopyUse::Kind::left_to_it, tensor, now_us);
  s.queued_out = s.asked_clean = s.copied = s.coded = false;
  s.place = Place::away;
  room_.end_leaving(trace_.tensors[tensor].bytes);
  room_.give(0, trace_.tensors[tensor].bytes, tensor);
}

void Copies::give_way(std::uint32_t tier, std::uint64_t bytes, double now_us) {
  std::deque<Copy>& copies = copies_[tier];
  std::vector<Copy> kept;
  while (!copies.empty() && !room_.fits(tier, bytes)) {
    const Copy copy = copies.front();
    copies.pop_front();
    if (copy.number != numbers_[copy.tensor] || !states_[copy.tensor].copied) continue;
    if (may_give_way(copy.tensor)) {
      recording_.copy(CopyUse::Kind::gave_way, copy.tensor, now_us);
      forget(copy.tensor);
    } else {
      kept.push_back(copy);
    }
  }
  copies.insert(copies.begin(), kept.begin(), kept.end());
}

}  // namespace terrace::planner
