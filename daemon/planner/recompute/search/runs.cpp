#include "daemon/planner/recompute/search/runs.h"

#include <algorithm>

namespace terrace::planner::recompute {

Runs runs_of(const Schedule& schedule) {
  Runs runs;
  for (const Move& move : schedule)
    if (move.kind == Move::Kind::compute) runs.push_back(move.index);
  return runs;
}

std::int64_t cost_ns_of(const Step& step, const Runs& runs) {
  std::int64_t sum = 0;
  for (const std::uint32_t op : runs) sum += step.operations[op].cost_ns;
  return sum;
}

// From behind: what is needed later stays.
Schedule schedule_of(const Step& step, const Runs& runs) {
  std::vector<char> needed(step.storages.size(), 0);
  for (std::size_t s = 0; s < needed.size(); ++s) needed[s] = step.storages[s].kept ? 1 : 0;
  Schedule backwards;
  for (std::size_t run = runs.size(); run-- > 0;) {
    const Operation& op = step.operations[runs[run]];
    const auto free = [&](std::uint32_t s) { backwards.push_back({Move::Kind::free, s}); };
    for (const std::uint32_t s : op.makes)
      if (needed[s] == 0) free(s);
    for (const std::uint32_t s : op.reads)
      if (needed[s] == 0 && !step.storages[s].constant()) free(s);
    backwards.push_back({Move::Kind::compute, runs[run]});
    for (const std::uint32_t s : op.makes) needed[s] = 0;
    for (const std::uint32_t s : op.reads) needed[s] = 1;
  }
  return {backwards.rbegin(), backwards.rend()};
}

Holding::Holding(const Step& step)
    : step_(step), last_span_(step.storages.size()), next_(step.storages.size()) {}

void Holding::look(const Runs& runs) {
  spans_.clear();
  std::fill(last_span_.begin(), last_span_.end(), none);
  used_.assign(runs.size(), 0);
  const auto count = static_cast<std::uint32_t>(runs.size());
  for (std::uint32_t run = 0; run < count; ++run) {
    const Operation& op = step_.operations[runs[run]];
    for (const std::uint32_t s : op.reads) {
      if (last_span_[s] == none) continue;  // a constant
      spans_[last_span_[s]].end = run;
      used_[spans_[last_span_[s]].begin] = 1;
    }
    for (const std::uint32_t s : op.makes) {
      spans_.push_back({run, run, last_span_[s]});
      last_span_[s] = static_cast<std::uint32_t>(spans_.size() - 1);
    }
  }
  for (std::size_t s = 0; s < step_.storages.size(); ++s) {
    if (!step_.storages[s].kept || last_span_[s] == none) continue;
    spans_[last_span_[s]].end = count;
    used_[spans_[last_span_[s]].begin] = 1;
  }
  measure(runs);
}

// What a run makes counts with the run; it is held from the next one on.
void Holding::measure(const Runs& runs) {
  change_.assign(runs.size() + 2, 0);
  for (std::size_t s = 0; s < last_span_.size(); ++s) {
    for (std::uint32_t i = last_span_[s]; i != none; i = spans_[i].before) {
      const auto bytes = static_cast<std::int64_t>(step_.storages[s].bytes);
      if (spans_[i].end == spans_[i].begin) continue;
      change_[spans_[i].begin + 1] += bytes;
      change_[spans_[i].end + 1] -= bytes;
    }
  }
  auto held = static_cast<std::int64_t>(step_.constant_bytes);
  peak_ = {};
  for (std::uint32_t run = 0; run < runs.size(); ++run) {
    held += change_[run];
    const Operation& op = step_.operations[runs[run]];
    const std::uint64_t bytes = static_cast<std::uint64_t>(held) + op.made_bytes + op.workspace_bytes;
    if (bytes > peak_.bytes) peak_ = {bytes, run};
  }
}

bool Holding::holds_over(std::uint32_t storage, std::uint32_t run) const {
  for (std::uint32_t i = last_span_[storage]; i != none; i = spans_[i].before)
    if (spans_[i].begin < run) return spans_[i].end >= run;
  return step_.storages[storage].constant();
}

void Holding::rests_at(std::uint32_t run, const Runs& runs, std::vector<Rest>* rests) {
  constexpr std::uint32_t made_again = nothing - 1;
  std::fill(next_.begin(), next_.end(), nothing);
  for (const std::uint32_t s : step_.operations[runs[run]].reads) next_[s] = made_again;
  for (std::uint32_t later = run; later < runs.size(); ++later) {
    const Operation& op = step_.operations[runs[later]];
    if (later > run) {
      for (const std::uint32_t s : op.reads)
        if (next_[s] == nothing) next_[s] = later;
    }
    for (const std::uint32_t s : op.makes)
      if (next_[s] == nothing) next_[s] = made_again;
  }
  rests->clear();
  for (std::uint32_t s = 0; s < next_.size(); ++s) {
    if (step_.storages[s].constant() || next_[s] == made_again) continue;
    if (next_[s] == nothing) {
      if (!step_.storages[s].kept) continue;
      next_[s] = static_cast<std::uint32_t>(runs.size());
    }
    if (holds_over(s, run)) rests->push_back({s, next_[s]});
  }
}

}  // namespace terrace::planner::recompute
