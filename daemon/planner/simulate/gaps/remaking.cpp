#include "daemon/planner/simulate/gaps/remaking.h"

#include <algorithm>

namespace terrace::planner {

using wire::Action;
using wire::ScheduleEntry;

void Remaking::add(const Gap& gap) {
  ending_[gap.to].push_back(gap);
  drop(gap.tensor, gap.from + 1);
}

void Remaking::add_to(std::vector<ScheduleEntry>* entries) {
  std::vector<ScheduleEntry> again;
  for (std::uint32_t at = 0; at < ending_.size(); ++at) {
    if (ending_[at].empty()) continue;
    for (const Lineage::Again& a : again_at(at)) {
      again.push_back({at, a.tensor, Action::redo, 0, {}});
      if (a.then == Lineage::Then::dead) {
        revive(a.tensor, at);
      } else {
        pass(a.tensor);
        if (a.then == Lineage::Then::dropped) passing_[a.tensor] = at;
      }
    }
  }
  while (!passing_.empty()) pass(passing_.begin()->first);
  entries->insert(entries->begin(), drops_.begin(), drops_.end());
  entries->insert(entries->end(), again.begin(), again.end());
}

// What is needed here once more stays since it was there last, if it can.
std::vector<Lineage::Again> Remaking::again_at(std::uint32_t at) {
  using Then = Lineage::Then;
  std::vector<Lineage::Again> again = lineage_.again_at(at, ending_[at]);
  if (room_ == nullptr) return again;
  std::vector<Lineage::Again> offered;
  for (const Lineage::Again& a : again) {
    const auto& there = a.then == Then::dead ? revived_ : passing_;
    const auto last = there.find(a.tensor);
    if (last != there.end() && hold(a.tensor, last->second, at)) offered.push_back(a);
  }
  if (offered.empty()) return again;
  std::vector<std::uint32_t> needed;
  again = lineage_.again_at(at, ending_[at], &needed);
  for (const Lineage::Again& a : offered) {
    std::uint32_t& last = a.then == Then::dead ? revived_[a.tensor] : passing_[a.tensor];
    if (std::find(needed.begin(), needed.end(), a.tensor) == needed.end()) {  // for what is held now, too
      room_->lineage.release(a.tensor);
      room_->residency.remove(last, at, room_->trace.tensors[a.tensor].bytes);
    } else if (a.then == Then::used) {
      passing_.erase(a.tensor);
    } else {
      last = at;
    }
  }
  return again;
}

bool Remaking::hold(std::uint32_t tensor, std::uint32_t from, std::uint32_t at) {
  const std::uint64_t bytes = room_->trace.tensors[tensor].bytes;
  if (bytes > room_->limit_bytes || room_->residency.exceeds(from, at, room_->limit_bytes - bytes))
    return false;
  room_->residency.add(from, at, bytes);
  room_->lineage.hold(tensor, from, at);
  return true;
}

// Its gap went on where it was there last, until here.
void Remaking::pass(std::uint32_t tensor) {
  const auto last = passing_.find(tensor);
  if (last == passing_.end()) return;
  drop(tensor, last->second + 1);
  passing_.erase(last);
}

void Remaking::drop(std::uint32_t tensor, std::uint32_t position) {
  drops_.push_back({position, tensor, Action::drop, 0, {}});
}

// Named again here, it would live until here: it is dropped when it would have died. The last time it dies by
// itself.
void Remaking::revive(std::uint32_t tensor, std::uint32_t at) {
  const auto before = revived_.find(tensor);
  drop(tensor, 1 + (before == revived_.end() ? lineage_.last_use(tensor) : before->second));
  revived_[tensor] = at;
}

}  // namespace terrace::planner
