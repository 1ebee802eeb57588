#include "daemon/planner/recompute/static/stages.h"

#include <algorithm>

namespace terrace::planner::recompute {

Stages::Stages(const Step& step)
    : step_(step), kept_(step.operations.size() + 1, std::vector<bool>(step.storages.size())) {
  for (std::uint32_t s = 0; s < step.storages.size(); ++s) kept_.back()[s] = step.storages[s].kept;
}

void Stages::keep_between(std::uint32_t storage, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t stage = first; stage <= last && stage < step_.operations.size(); ++stage)
    keep(stage, storage);
}

void Stages::keep_to_last_reader(std::uint32_t storage) {
  const Storage& s = step_.storages[storage];
  if (s.constant()) return;
  const auto end = static_cast<std::uint32_t>(step_.operations.size());
  keep_between(storage, s.maker + 1, s.kept || s.readers.empty() ? end : s.readers.back());
}

bool Stages::kept(std::uint32_t stage, std::uint32_t storage) const {
  const Storage& s = step_.storages[storage];
  return s.constant() || (s.maker < stage && kept_[stage][storage]);
}

// In the order of the step.
std::vector<std::uint32_t> Stages::runs_of(std::uint32_t stage) const {
  std::vector<bool> runs(stage + 1);
  runs[stage] = true;
  for (std::uint32_t s = 0; s < step_.storages.size(); ++s)
    if (kept(stage + 1, s) && !kept(stage, s)) runs[step_.storages[s].maker] = true;
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = stage + 1; i-- > 0;) {
    if (!runs[i]) continue;
    list.push_back(i);
    for (const std::uint32_t s : step_.operations[i].reads)
      if (!kept(stage, s)) runs[step_.storages[s].maker] = true;
  }
  std::reverse(list.begin(), list.end());
  return list;
}

void Stages::add_stage(std::uint32_t stage, Schedule* schedule) const {
  const std::vector<std::uint32_t> runs = runs_of(stage);
  // Where a storage that is not kept into the next stage is named last; what the stage does not name goes
  // first.
  std::vector<std::uint32_t> last(step_.storages.size(), nothing);
  for (std::uint32_t n = 0; n < runs.size(); ++n) {
    for (const std::uint32_t s : step_.operations[runs[n]].reads) last[s] = n;
    for (const std::uint32_t s : step_.operations[runs[n]].makes) last[s] = n;
  }
  std::vector<std::vector<std::uint32_t>> frees(runs.size());
  for (std::uint32_t s = 0; s < step_.storages.size(); ++s) {
    if (kept(stage + 1, s)) continue;
    if (last[s] != nothing) frees[last[s]].push_back(s);
    if (last[s] == nothing && kept(stage, s)) schedule->push_back({Move::Kind::free, s});
  }
  for (std::uint32_t n = 0; n < runs.size(); ++n) {
    schedule->push_back({Move::Kind::compute, runs[n]});
    for (const std::uint32_t s : frees[n]) schedule->push_back({Move::Kind::free, s});
  }
}

Schedule Stages::schedule() const {
  Schedule schedule;
  for (std::uint32_t stage = 0; stage < step_.operations.size(); ++stage) add_stage(stage, &schedule);
  return schedule;
}

}  // namespace terrace::planner::recompute
