#include "daemon/planner/simulate/gaps/remaking.h"

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
    for (const Lineage::Again& a : lineage_.again_at(at, ending_[at])) {
      again.push_back({at, a.tensor, Action::redo, 0, {}});
      if (a.then == Lineage::Then::dropped) drop(a.tensor, at + 1);
      if (a.then == Lineage::Then::dead) revive(a.tensor, at);
    }
  }
  entries->insert(entries->begin(), drops_.begin(), drops_.end());
  entries->insert(entries->end(), again.begin(), again.end());
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
